import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("jobs", "0001_initial"),
    ]

    operations = [
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
