import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("teams", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="ImageRule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("pattern", models.CharField(max_length=300)),
                (
                    "profile",
                    models.CharField(
                        choices=[("user", "user"), ("root", "root")], db_default="root", default="root", max_length=10
                    ),
                ),
                ("note", models.CharField(blank=True, max_length=500)),
                ("created_at", models.DateTimeField()),
                (
                    "vc",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="image_rules",
                        to="teams.virtualcluster",
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("vc__isnull", False)), fields=("vc", "pattern"), name="image_rule_of_vc"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("vc__isnull", True)), fields=("pattern",), name="image_rule_of_cluster"
                    ),
                ],
            },
        ),
    ]
