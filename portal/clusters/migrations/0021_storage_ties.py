from django.db import migrations, models


def keep_mounted(apps, schema_editor):
    """Accepted servers go on to offer the storages that the portal has them mount, also those that they have not
    reported yet."""
    Node, Storage = apps.get_model("clusters", "Node"), apps.get_model("clusters", "Storage")
    exported = set(Storage.objects.exclude(export="").values_list("root", flat=True))
    for node in Node.objects.filter(accepted__isnull=False).iterator():
        node.accepted["storages"] = sorted({*node.accepted["storages"], *exported})
        node.save(update_fields=["accepted"])


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0020_host_network_asked"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="ties",
            field=models.JSONField(
                blank=True, db_default={}, default=dict, help_text="To storages, by id: portal.clusters.ties"
            ),
        ),
        migrations.RunPython(keep_mounted, migrations.RunPython.noop),
    ]
