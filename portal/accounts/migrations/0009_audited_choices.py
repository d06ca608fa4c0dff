from django.db import migrations, models

import portal.accounts.models


class Migration(migrations.Migration):
    """What the audit log tells of stands in the model alone from here on."""

    dependencies = [
        ("accounts", "0008_node_remove"),
    ]

    operations = [
        migrations.AlterField(
            model_name="auditentry",
            name="action",
            field=models.CharField(choices=portal.accounts.models.audited_choices, max_length=20),
        ),
    ]
