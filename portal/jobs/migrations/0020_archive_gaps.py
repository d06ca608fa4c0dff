from django.db import migrations, models


class Migration(migrations.Migration):
    """Of what was archived before no gap is known: nothing is filled in, and no row is written."""

    dependencies = [
        ("jobs", "0019_task_not_before"),
    ]

    operations = [
        migrations.AddField(
            model_name="taskattempt",
            name="archive_gaps",
            field=models.BigIntegerField(
                db_default=0, default=0, help_text="bytes before archived_to that its node never sent"
            ),
        ),
        migrations.RemoveIndex(
            model_name="taskattempt",
            name="task_attempt_log",
        ),
        migrations.AddIndex(
            model_name="taskattempt",
            index=models.Index(
                condition=models.Q(("archived_to__gt", 0), ("removed_at__isnull", False)),
                fields=["job_attempt"],
                include=("archived_to", "archive_gaps"),
                name="task_attempt_log",
            ),
        ),
    ]
