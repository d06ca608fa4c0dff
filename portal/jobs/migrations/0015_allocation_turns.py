from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps
from django.db.models import F

BATCH = 1000


def keep_known_turns(apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    """Of a right that has changed the last change is known."""
    allocations = apps.get_model("jobs", "Allocation").objects
    changed = list(allocations.filter(since__gt=F("created_at")).order_by("id").only("since"))
    for one in changed:
        one.turns = f" {one.since.isoformat()}"
    allocations.bulk_update(changed, ["turns"], batch_size=BATCH)


def forget_turns(apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    """They go with their column."""


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0014_queue_order"),
    ]

    operations = [
        migrations.AddField(
            model_name="allocation",
            name="turns",
            field=models.TextField(blank=True, db_default="", default=""),
        ),
        migrations.RunPython(keep_known_turns, forget_turns),
    ]
