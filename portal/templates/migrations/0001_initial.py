import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("teams", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="JobTemplate",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        max_length=64,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Za-z0-9][A-Za-z0-9_.-]*\\Z", "Letters, digits, dot, dash and underscore only."
                            )
                        ],
                    ),
                ),
                ("description", models.TextField(blank=True)),
                ("file", models.TextField(help_text="a valid job file without secrets, as it was typed")),
                ("author", models.CharField(max_length=64)),
                ("changed_at", models.DateTimeField()),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="job_templates",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "vc",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="job_templates",
                        to="teams.virtualcluster",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("user__isnull", True), ("vc__isnull", True), _connector="OR"),
                        name="template_one_home",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("user__isnull", False)), fields=("user", "name"), name="template_of_user"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("vc__isnull", False)), fields=("vc", "name"), name="template_of_vc"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("user__isnull", True), ("vc__isnull", True)),
                        fields=("name",),
                        name="template_of_all",
                    ),
                ],
            },
        ),
    ]
