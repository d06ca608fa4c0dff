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
            name="StoredSecret",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(choices=[("secret", "Secret"), ("registry", "Registry log-in")], max_length=8),
                ),
                ("name", models.CharField(max_length=260)),
                ("username", models.CharField(blank=True, help_text="of a registry log-in", max_length=255)),
                ("sealed", models.TextField()),
                ("changed_at", models.DateTimeField()),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="stored_secrets",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "vc",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="stored_secrets",
                        to="teams.virtualcluster",
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("user__isnull", True), ("vc__isnull", False)),
                            models.Q(("user__isnull", False), ("vc__isnull", True)),
                            _connector="OR",
                        ),
                        name="stored_secret_one_owner",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("user__isnull", False)),
                        fields=("user", "kind", "name"),
                        name="stored_secret_of_user",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("vc__isnull", False)),
                        fields=("vc", "kind", "name"),
                        name="stored_secret_of_vc",
                    ),
                ],
            },
        ),
    ]
