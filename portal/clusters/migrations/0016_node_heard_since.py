from django.db import migrations, models


class Migration(migrations.Migration):
    """Each node's next report says since when."""

    dependencies = [
        ("clusters", "0015_node_stuck"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="heard_since",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
