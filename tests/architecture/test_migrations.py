"""While a release is rolled out the one before it still writes: columns that came later must not need its help."""

from django.apps import apps
from django.core.exceptions import FieldDoesNotExist
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations import AddField, CreateModel
from django.db.models import Field

OURS = ("accounts", "clusters", "jobs", "dispatch", "notices", "openpai")


def added() -> list[tuple[str, str, str]]:
    """(app, model, field) of what was added to a model that stood before."""
    found = []
    loader = MigrationLoader(None)
    for (app, _), migration in sorted(loader.disk_migrations.items()):
        if app not in OURS or migration.initial:
            continue
        made = {one.name_lower for one in migration.operations if isinstance(one, CreateModel)}
        adding = [one for one in migration.operations if isinstance(one, AddField)]
        found += [(app, one.model_name_lower, one.name) for one in adding if one.model_name_lower not in made]
    return found


def test_a_column_that_came_later_may_be_left_out() -> None:
    for app, model, name in added():
        try:
            field = apps.get_model(app, model)._meta.get_field(name)
        except (LookupError, FieldDoesNotExist):
            continue
        assert isinstance(field, Field)
        assert field.null or field.many_to_many or field.has_db_default(), (app, model, name)
