from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0018_lease_over"),
    ]

    operations = [
        migrations.AddField(
            model_name="task",
            name="not_before",
            field=models.DateTimeField(blank=True, help_text="it waits until then to be tried again", null=True),
        ),
    ]
