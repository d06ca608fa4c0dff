from typing import Any

from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations import AddIndex
from django.db.migrations.state import ProjectState


class AddIndexAside(AddIndex):
    """Jobs go on being written while PostgreSQL makes the index."""

    def database_forwards(
        self, app_label: str, editor: BaseDatabaseSchemaEditor, before: ProjectState, after: ProjectState
    ) -> None:
        aside: dict[str, Any] = {"concurrently": True} if editor.connection.vendor == "postgresql" else {}
        editor.add_index(after.apps.get_model(app_label, self.model_name), self.index, **aside)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("jobs", "0012_idle_exemption_tag"),
    ]

    operations = [
        AddIndexAside(
            model_name="job",
            index=models.Index(
                condition=models.Q(("ended_at__isnull", False)), fields=["ended_at", "id"], name="job_by_end"
            ),
        ),
    ]
