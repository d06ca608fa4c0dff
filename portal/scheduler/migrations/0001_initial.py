from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="CycleLease",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("holder", models.CharField(blank=True, max_length=100)),
                ("until", models.DateTimeField()),
                (
                    "well_at",
                    models.DateTimeField(
                        blank=True, help_text="the last cycle that could do what it decided", null=True
                    ),
                ),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="one_lease")],
            },
        ),
        migrations.CreateModel(
            name="Reservations",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("jobs", models.JSONField(default=list)),
                ("version", models.BigIntegerField(default=0)),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="one_list_of_reservations")],
            },
        ),
    ]
