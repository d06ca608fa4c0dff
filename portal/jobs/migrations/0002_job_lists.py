from django.conf import settings
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

PARTS_OF_NAMES = """
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE INDEX job_name_parts ON jobs_job USING gin (UPPER(name::text) gin_trgm_ops);
"""


def index_parts(apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    """Parts of names are found by PostgreSQL's own extension; SQLite, where few jobs are, reads the names."""
    if editor.connection.vendor == "postgresql":
        editor.execute(PARTS_OF_NAMES)


def forget_parts(apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    """The extension stays: others may use it."""
    if editor.connection.vendor == "postgresql":
        editor.execute("DROP INDEX IF EXISTS job_name_parts")


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0001_initial"),
        ("jobs", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddIndex(
            model_name="job", index=models.Index(fields=["submitted_at", "id"], name="job_by_submission")
        ),
        migrations.AddIndex(model_name="job", index=models.Index(fields=["name", "id"], name="job_by_name")),
        migrations.AddIndex(model_name="job", index=models.Index(fields=["priority", "id"], name="job_by_priority")),
        migrations.RunPython(index_parts, forget_parts),
    ]
