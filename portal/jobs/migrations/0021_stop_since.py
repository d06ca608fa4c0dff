from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps
from django.utils import timezone


def count_from_now(apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    """Of those that are told to end and have not, nobody knows any more since when."""
    ending = apps.get_model("jobs", "TaskAttempt").objects.filter(phase="stop", released_at__isnull=True)
    ending.update(stop_since=timezone.now())


def forget(apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    """It goes with its column."""


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0020_archive_gaps"),
    ]

    operations = [
        migrations.AddField(
            model_name="taskattempt",
            name="stop_since",
            field=models.DateTimeField(blank=True, help_text="when it was first told to stop", null=True),
        ),
        migrations.RunPython(count_from_now, forget),
    ]
