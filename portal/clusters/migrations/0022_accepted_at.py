from django.db import migrations, models
from django.db.models import F


def as_they_joined(apps, schema_editor):
    """When they were accepted nobody wrote down."""
    apps.get_model("clusters", "Node").objects.filter(accepted__isnull=False).update(accepted_at=F("joined_at"))


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0021_storage_ties"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="accepted_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.RunPython(as_they_joined, migrations.RunPython.noop),
    ]
