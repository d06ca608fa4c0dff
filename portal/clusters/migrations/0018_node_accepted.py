from collections import defaultdict

from django.db import migrations, models


def accept_known(apps, schema_editor):
    """Servers that have reported before count as accepted with what they have; the others are pending."""
    Node, Gpu = apps.get_model("clusters", "Node"), apps.get_model("clusters", "Gpu")
    gpus = defaultdict(dict)
    for node, model, memory_mb in Gpu.objects.filter(present=True).values_list("node_id", "model", "memory_mb"):
        count, most = gpus[node].get(model, (0, 0))
        gpus[node][model] = [count + 1, max(most, memory_mb)]
    for node in Node.objects.filter(last_report_at__isnull=False).iterator():
        node.accepted = {
            "cpu_milli": node.cpu_milli,
            "memory_mb": node.memory_mb,
            "address": node.address,
            "runtime": node.runtime,
            "simulated": node.simulated,
            "storages": sorted(node.storages),
            "gpus": gpus[node.pk],
        }
        node.save(update_fields=["accepted"])


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0017_node_heard_since"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="accepted",
            field=models.JSONField(blank=True, null=True, help_text="Of its claims, what counts; none: it is pending"),
        ),
        migrations.AddField(
            model_name="node",
            name="claims",
            field=models.JSONField(blank=True, db_default={}, default=dict, help_text="What it says beyond that"),
        ),
        migrations.AddField(
            model_name="node", name="accept_first", field=models.BooleanField(db_default=False, default=False)
        ),
        migrations.AddField(
            model_name="jointoken", name="accept", field=models.BooleanField(db_default=False, default=False)
        ),
        migrations.RunPython(accept_known, migrations.RunPython.noop),
    ]
