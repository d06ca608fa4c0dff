from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="JoinToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("prefix", models.CharField(max_length=16)),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("uses", models.PositiveIntegerField()),
                ("used", models.PositiveIntegerField(default=0)),
                ("rack", models.CharField(blank=True, max_length=64)),
                ("accept", models.BooleanField(db_default=False, default=False)),
                ("cpu_tasks", models.BooleanField(db_default=False, default=False)),
                ("created_by", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("used__lte", models.F("uses"))), name="join_token_uses")
                ],
            },
        ),
    ]
