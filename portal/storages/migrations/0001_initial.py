import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("teams", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Storage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        help_text="as job files call it",
                        max_length=64,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Za-z0-9][A-Za-z0-9_.-]*\\Z", "Letters, digits, dot, dash and underscore only."
                            )
                        ],
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("path", "path"), ("nfs", "nfs")],
                        default="path",
                        help_text="`path`: a folder that each node mounts itself; `nfs`: agents mount its export",
                        max_length=8,
                    ),
                ),
                ("root", models.CharField(help_text="absolute path on every node that offers it", max_length=500)),
                ("export", models.CharField(blank=True, help_text="of `nfs`: `server:/export`", max_length=500)),
                (
                    "options",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="of `nfs`: `vers=4.2,nconnect=4`",
                        max_length=300,
                    ),
                ),
                ("read_only", models.BooleanField(default=False)),
                (
                    "per_user",
                    models.BooleanField(
                        default=False, help_text="each user sees a folder of their own, and nothing else of it"
                    ),
                ),
                (
                    "must_be_mount",
                    models.BooleanField(
                        default=True, help_text="where nothing is mounted at its root, a node does not offer it"
                    ),
                ),
                ("jobs", models.BooleanField(default=False, help_text="job folders lie here; of one storage")),
                ("everyone", models.BooleanField(default=False, help_text="every job may use it")),
                ("vcs", models.ManyToManyField(blank=True, related_name="storages", to="teams.virtualcluster")),
            ],
            options={
                "ordering": ["name"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("jobs", True)), fields=("jobs",), name="one_storage_for_jobs"
                    )
                ],
            },
        ),
    ]
