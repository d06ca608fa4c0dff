from django.db import migrations, models


class Migration(migrations.Migration):
    """Each node's next report says since when."""

    dependencies = [
        ("clusters", "0016_image_profile"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="heard_since",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
