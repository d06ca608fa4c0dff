from django.db import migrations, models


class Migration(migrations.Migration):
    """Of those that are told to end and have not, nobody knows any more since when: it counts from the next cycle."""

    dependencies = [
        ("jobs", "0020_archive_gaps"),
    ]

    operations = [
        migrations.AddField(
            model_name="taskattempt",
            name="stop_since",
            field=models.DateTimeField(blank=True, help_text="when it was first told to stop", null=True),
        ),
    ]
