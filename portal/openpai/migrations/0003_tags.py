"""Tags are Berth's own from now on."""

from django.db import migrations

COPY = "INSERT INTO {} (job_id, name) SELECT job_id, name FROM {} ORDER BY id"
OLD, NEW = "openpai_jobtag", "jobs_jobtag"


class Migration(migrations.Migration):
    dependencies = [("jobs", "0007_lists"), ("openpai", "0002_descriptions")]

    operations = [
        migrations.RunSQL(COPY.format(NEW, OLD), COPY.format(OLD, NEW)),
        migrations.DeleteModel(name="JobTag"),
    ]
