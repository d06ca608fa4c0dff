from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Backup",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("made_at", models.DateTimeField(db_index=True, help_text="the moment that it holds")),
                ("path", models.TextField(help_text="where it was written")),
                ("size", models.BigIntegerField(help_text="bytes")),
            ],
        ),
        migrations.CreateModel(
            name="DataFolder",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("mark", models.CharField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name="Restore",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("made_at", models.DateTimeField(help_text="the moment that the backup holds")),
                ("at", models.DateTimeField()),
            ],
        ),
    ]
