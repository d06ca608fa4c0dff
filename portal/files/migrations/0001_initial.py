import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("jobs", "0001_initial"),
        ("storages", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="KeptFolder",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="kept_folder",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("path", models.CharField(help_text="on every node that offers the storage", max_length=1000)),
                ("deleted_at", models.DateTimeField(blank=True, null=True)),
                ("next_at", models.DateTimeField(blank=True, help_text="not asked of a node before then", null=True)),
                (
                    "failures",
                    models.PositiveSmallIntegerField(default=0, help_text="how often it was to be deleted and was not"),
                ),
                ("fault", models.TextField(blank=True, help_text="why, the last time")),
                (
                    "storage",
                    models.ForeignKey(
                        help_text="empty: it is forgotten",
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="storages.storage",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["path"], name="kept_folder_path"),
                    models.Index(
                        condition=models.Q(("deleted_at__isnull", True)), fields=["failures"], name="kept_folder_there"
                    ),
                ],
            },
        ),
    ]
