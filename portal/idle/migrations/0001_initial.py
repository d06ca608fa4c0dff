import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("jobs", "0001_initial"),
        ("teams", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="GpuActivity",
            fields=[
                (
                    "job_attempt",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="activity",
                        serialize=False,
                        to="jobs.jobattempt",
                    ),
                ),
                ("told", models.PositiveIntegerField()),
                ("last", models.PositiveIntegerField()),
                ("steps", models.JSONField(default=list)),
            ],
        ),
        migrations.CreateModel(
            name="IdleExemption",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("pattern", models.CharField(blank=True, help_text="of the job's name", max_length=255)),
                (
                    "tag",
                    models.CharField(blank=True, db_default="", default="", help_text="of the job", max_length=255),
                ),
                ("reason", models.CharField(max_length=500)),
                ("until", models.DateTimeField(blank=True, null=True)),
                ("author", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField()),
                (
                    "job",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="idle_exemptions",
                        to="jobs.job",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "vc",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="idle_exemptions",
                        to="teams.virtualcluster",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("user__isnull", False),
                            ("job__isnull", False),
                            models.Q(("pattern", ""), _negated=True),
                            models.Q(("tag", ""), _negated=True),
                            _connector="OR",
                        ),
                        name="idle_exemption_of_some",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="IdlePolicy",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "action",
                    models.CharField(
                        choices=[
                            ("off", "Nothing"),
                            ("warn", "Warn its owner"),
                            ("stop", "Warn, then stop it"),
                            ("opportunistic", "Warn, then make it opportunistic"),
                        ],
                        max_length=16,
                    ),
                ),
                ("percent", models.PositiveSmallIntegerField()),
                ("minutes", models.PositiveIntegerField()),
                ("after_minutes", models.PositiveIntegerField(help_text="from the warning to what follows it")),
                (
                    "extensions",
                    models.PositiveSmallIntegerField(
                        help_text="how often that can be put off, in one attempt of a job"
                    ),
                ),
                ("extension_minutes", models.PositiveIntegerField()),
                (
                    "vc",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="idle_policy",
                        to="teams.virtualcluster",
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [
                    models.UniqueConstraint(
                        models.Value(1), condition=models.Q(("vc__isnull", True)), name="one_idle_policy_of_cluster"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="IdleWarning",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "action",
                    models.CharField(
                        choices=[
                            ("off", "Nothing"),
                            ("warn", "Warn its owner"),
                            ("stop", "Warn, then stop it"),
                            ("opportunistic", "Warn, then make it opportunistic"),
                        ],
                        max_length=16,
                    ),
                ),
                ("percent", models.PositiveSmallIntegerField()),
                ("minutes", models.PositiveIntegerField()),
                ("after_minutes", models.PositiveIntegerField()),
                (
                    "source",
                    models.CharField(
                        blank=True, help_text="whose policy: a virtual cluster's; empty: all's", max_length=64
                    ),
                ),
                ("gpus", models.PositiveIntegerField()),
                ("since", models.DateTimeField()),
                ("warned_at", models.DateTimeField()),
                ("due_at", models.DateTimeField(blank=True, null=True)),
                ("extensions", models.PositiveIntegerField(default=0)),
                ("acted_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "end",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("worked", "Its GPUs work again"),
                            ("unknown", "Nothing is known of its GPUs"),
                            ("exempt", "It was exempted"),
                            ("policy", "The policy was changed"),
                            ("stopped", "It was stopped for it"),
                            ("over", "The attempt ended"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "job_attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="idle_warnings", to="jobs.jobattempt"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("job_attempt",),
                        name="one_open_idle_warning",
                    )
                ],
            },
        ),
    ]
