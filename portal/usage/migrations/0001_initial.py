import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("hardware", "0001_initial"),
        ("jobs", "0001_initial"),
        ("teams", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="UsageProgress",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("folded_to", models.DateTimeField()),
                ("rolled_to", models.DateField()),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="one_usage_progress")],
            },
        ),
        migrations.CreateModel(
            name="Measured",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField()),
                ("measured_ms", models.BigIntegerField()),
                ("used_ms", models.BigIntegerField()),
                ("idle_ms", models.BigIntegerField()),
                (
                    "task_attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="measured", to="jobs.taskattempt"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [models.UniqueConstraint(fields=("day", "task_attempt"), name="measured_once")],
            },
        ),
        migrations.CreateModel(
            name="UsageDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField()),
                ("guaranteed_ms", models.BigIntegerField()),
                ("opportunistic_ms", models.BigIntegerField()),
                (
                    "grown_ms",
                    models.BigIntegerField(
                        db_default=0, default=0, help_text="of these, by extra tasks of elastic jobs"
                    ),
                ),
                ("measured_ms", models.BigIntegerField()),
                ("used_ms", models.BigIntegerField()),
                ("idle_ms", models.BigIntegerField()),
                ("wasted_ms", models.BigIntegerField()),
                (
                    "sku",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="hardware.sku"),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "vc",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="teams.virtualcluster"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [models.UniqueConstraint(fields=("day", "vc", "user", "sku"), name="usage_day_once")],
            },
        ),
    ]
