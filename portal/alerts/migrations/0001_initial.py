from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

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
    ]
