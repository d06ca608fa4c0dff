import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("jobs", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="AlertSilence",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=500, unique=True)),
                ("name", models.CharField(help_text="what the alert was of, as it was shown", max_length=255)),
                (
                    "severity",
                    models.CharField(
                        db_default="critical",
                        default="critical",
                        help_text="the worst of it that is not told",
                        max_length=10,
                    ),
                ),
                ("reason", models.CharField(max_length=500)),
                ("author", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField()),
                ("until", models.DateTimeField()),
            ],
            options={
                "ordering": ["until", "id"],
            },
        ),
        migrations.CreateModel(
            name="AlertWatch",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("looked_at", models.DateTimeField()),
                ("known", models.JSONField(default=dict)),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="one_alert_watch")],
            },
        ),
        migrations.CreateModel(
            name="CycleLease",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("holder", models.CharField(blank=True, max_length=100)),
                ("until", models.DateTimeField()),
                (
                    "well_at",
                    models.DateTimeField(
                        blank=True, help_text="the last cycle that could do what it decided", null=True
                    ),
                ),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="one_lease")],
            },
        ),
        migrations.CreateModel(
            name="Reservations",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("jobs", models.JSONField(default=list)),
                ("version", models.BigIntegerField(default=0)),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="one_list_of_reservations")],
            },
        ),
        migrations.CreateModel(
            name="StartEstimate",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("made_at", models.DateTimeField()),
                ("p50_at", models.DateTimeField(help_text="as likely before as after")),
                ("p90_at", models.DateTimeField(help_text="by then, nine times in ten")),
                ("started_at", models.DateTimeField(blank=True, help_text="what happened; empty: not yet", null=True)),
                (
                    "job",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="jobs.job"),
                ),
            ],
            options={
                "ordering": ["id"],
                "indexes": [
                    models.Index(condition=models.Q(("started_at", None)), fields=["job"], name="estimate_unscored"),
                    models.Index(fields=["made_at"], name="estimate_made"),
                ],
            },
        ),
    ]
