from django.db import migrations, models


def keep_known(apps, schema_editor):
    """Servers that are there go on to get tasks without GPUs; whoever accepts another one says so."""
    apps.get_model("clusters", "Node").objects.update(cpu_tasks=True)


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0018_node_accepted"),
    ]

    operations = [
        migrations.AddField(
            model_name="jointoken", name="cpu_tasks", field=models.BooleanField(db_default=False, default=False)
        ),
        migrations.AddField(
            model_name="node", name="cpu_tasks", field=models.BooleanField(db_default=False, default=False)
        ),
        migrations.RunPython(keep_known, migrations.RunPython.noop),
    ]
