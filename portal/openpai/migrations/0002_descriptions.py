"""Descriptions of groups are Berth's own from now on."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def hand_over(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    note = apps.get_model("accounts", "GroupNote")
    for old in apps.get_model("openpai", "GroupNote").objects.exclude(description=""):
        note.objects.update_or_create(group_id=old.group_id, defaults={"description": old.description})


def take_back(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    for new in apps.get_model("accounts", "GroupNote").objects.exclude(description=""):
        apps.get_model("openpai", "GroupNote").objects.update_or_create(
            group_id=new.group_id, defaults={"description": new.description}
        )


class Migration(migrations.Migration):
    dependencies = [("accounts", "0003_people"), ("openpai", "0001_initial")]

    operations = [
        migrations.RunPython(hand_over, take_back),
        migrations.RemoveField(model_name="groupnote", name="description"),
    ]
