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
                (
                    "pattern",
                    models.CharField(
                        help_text="an image's name, `*` for any text; without a tag all tags are meant",
                        max_length=300,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Za-z0-9._:/@*?\\[\\]!+-]+\\Z",
                                "Part of an image's name, with * for any text and ? for a character.",
                            )
                        ],
                    ),
                ),
                (
                    "profile",
                    models.CharField(
                        choices=[("user", "user"), ("root", "root")],
                        db_default="root",
                        default="root",
                        help_text="as whom at most: root: as its virtual cluster says; user: as the job's user there, too",
                        max_length=10,
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
