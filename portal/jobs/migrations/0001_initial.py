import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

import portal.common.sentence_field

PARTS_OF_NAMES = """
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE INDEX job_name_parts ON jobs_job USING gin (UPPER(name::text) gin_trgm_ops);
"""


def index_parts(apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    """Parts of names are found by PostgreSQL's own extension; SQLite, where few jobs are, reads the names."""
    if editor.connection.vendor == "postgresql":
        editor.execute(PARTS_OF_NAMES)


def forget_parts(apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    """The extension stays: others may use it."""
    if editor.connection.vendor == "postgresql":
        editor.execute("DROP INDEX IF EXISTS job_name_parts")


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("code", "0001_initial"),
        ("hardware", "0001_initial"),
        ("teams", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=255)),
                ("run", models.PositiveIntegerField(help_text="counts the user's jobs of this name, from 1")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("starting", "Starting"),
                            ("running", "Running"),
                            ("stopping", "Stopping"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("stopped", "Stopped"),
                        ],
                        default="waiting",
                        max_length=10,
                    ),
                ),
                ("priority", models.SmallIntegerField()),
                ("gang", models.BooleanField(default=True)),
                ("spec", models.JSONField(help_text="JobSpec.to_json: no secrets")),
                ("config", models.TextField(help_text="the job file as submitted, secrets masked")),
                ("secrets_sealed", models.TextField(blank=True, help_text="sealed under the key file")),
                (
                    "submit_key",
                    models.CharField(blank=True, help_text="Idempotency-Key of the submission", max_length=100),
                ),
                ("submitted_at", models.DateTimeField()),
                (
                    "paused",
                    models.BooleanField(default=False, help_text="held by its owner or a lead: it does not start"),
                ),
                (
                    "kept",
                    models.BooleanField(
                        db_default=False,
                        default=False,
                        help_text="a lead lets it run for the team, though its owner may not run jobs there any more",
                    ),
                ),
                (
                    "queue_ms",
                    models.BigIntegerField(
                        blank=True,
                        help_text="as if submitted then (ms since 1970), for the order alone; empty: as it was",
                        null=True,
                    ),
                ),
                (
                    "led",
                    models.BooleanField(
                        db_default=False,
                        default=False,
                        help_text="a lead gave it its place: before all others of its class that have none",
                    ),
                ),
                ("not_before", models.DateTimeField(blank=True, help_text="a retry waits until then", null=True)),
                ("started_at", models.DateTimeField(blank=True, help_text="first time it ran", null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "end_reason",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("succeeded", "Succeeded"),
                            ("failed", "A task failed"),
                            ("stopped", "Stopped by a person"),
                            ("start_failed", "Could not be started"),
                            ("node_fault", "A node was at fault"),
                            ("node_lost", "A node was lost"),
                            ("drained", "Its node was drained"),
                            ("preempted", "Preempted"),
                            ("time_limit", "Its time limit was reached"),
                            ("idle", "Its GPUs did nothing"),
                        ],
                        max_length=16,
                    ),
                ),
                (
                    "end_message",
                    portal.common.sentence_field.SentenceField(
                        blank=True, default=portal.common.sentence_field.nothing, help_text="the cause in words"
                    ),
                ),
                ("exit_code", models.IntegerField(blank=True, null=True)),
                (
                    "logs_dropped_at",
                    models.DateTimeField(
                        blank=True,
                        help_text="its logs were deleted early, since its virtual cluster kept too many",
                        null=True,
                    ),
                ),
                ("retries", models.PositiveIntegerField(default=0, help_text="attempts after the first")),
                (
                    "retries_counted",
                    models.PositiveIntegerField(default=0, help_text="of these, those its retry count pays for"),
                ),
                (
                    "avoid_nodes",
                    models.JSONField(
                        blank=True,
                        default=dict,
                        help_text="nodes that were at fault -> until when it goes elsewhere, ms since 1970",
                    ),
                ),
                ("waiting_code", models.CharField(blank=True, max_length=20)),
                ("waiting_message", models.TextField(blank=True)),
                ("waiting_numbers", models.JSONField(blank=True, default=dict)),
                ("waiting_written_at", models.DateTimeField(blank=True, null=True)),
                (
                    "code",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="jobs",
                        to="code.codefolder",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="jobs",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "vc",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="jobs",
                        to="teams.virtualcluster",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="Demotion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("cause", models.CharField(max_length=200)),
                ("created_at", models.DateTimeField()),
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="demotion", to="jobs.job"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="JobAttempt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField(help_text="from 1")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("starting", "Starting"),
                            ("running", "Running"),
                            ("ending", "Ending"),
                            ("ended", "Ended"),
                        ],
                        default="starting",
                        max_length=10,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(blank=True, help_text="when its first task ran", null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "end_reason",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("succeeded", "Succeeded"),
                            ("failed", "A task failed"),
                            ("stopped", "Stopped by a person"),
                            ("start_failed", "Could not be started"),
                            ("node_fault", "A node was at fault"),
                            ("node_lost", "A node was lost"),
                            ("drained", "Its node was drained"),
                            ("preempted", "Preempted"),
                            ("time_limit", "Its time limit was reached"),
                            ("idle", "Its GPUs did nothing"),
                        ],
                        max_length=16,
                    ),
                ),
                (
                    "end_message",
                    portal.common.sentence_field.SentenceField(
                        blank=True, default=portal.common.sentence_field.nothing
                    ),
                ),
                ("end_behaviour", models.CharField(blank=True, max_length=10)),
                ("exit_code", models.IntegerField(blank=True, null=True)),
                (
                    "parked_s",
                    models.PositiveIntegerField(
                        db_default=0,
                        default=0,
                        help_text="seconds parked, until it was last resumed: no part of its time limit",
                    ),
                ),
                (
                    "own_priority",
                    models.SmallIntegerField(
                        blank=True,
                        help_text="the priority that the job has again at its end, where it was lowered",
                        null=True,
                    ),
                ),
                (
                    "digests",
                    models.JSONField(blank=True, default=dict, help_text="image as named -> digest all its tasks run"),
                ),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="attempts", to="jobs.job"
                    ),
                ),
            ],
            options={
                "ordering": ["job_id", "number"],
            },
        ),
        migrations.CreateModel(
            name="JobTag",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=255)),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="tags", to="jobs.job"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="Preemption",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("tasks", models.PositiveIntegerField()),
                ("gpus", models.PositiveIntegerField()),
                (
                    "on_loan",
                    models.BooleanField(
                        help_text="what was taken back was no right of the victim's, which lost its run"
                    ),
                ),
                ("at", models.DateTimeField()),
                ("deadline", models.DateTimeField()),
                (
                    "preemptor",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="preemptions",
                        to="jobs.job",
                    ),
                ),
                (
                    "victim",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="preemptions", to="jobs.jobattempt"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="SavedView",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=60)),
                ("query", models.TextField(blank=True)),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="saved_views",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="Task",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("index", models.PositiveIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("starting", "Starting"),
                            ("running", "Running"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("stopped", "Stopped"),
                        ],
                        default="waiting",
                        max_length=10,
                    ),
                ),
                ("retries_counted", models.PositiveIntegerField(default=0)),
                (
                    "not_before",
                    models.DateTimeField(blank=True, help_text="it waits until then to be tried again", null=True),
                ),
                (
                    "job",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="tasks", to="jobs.job"),
                ),
            ],
            options={
                "ordering": ["role_id", "index"],
            },
        ),
        migrations.CreateModel(
            name="Claim",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("virtual_cell", models.CharField(blank=True, max_length=200)),
                (
                    "parked",
                    models.BooleanField(
                        db_default=False, default=False, help_text="the claimant is parked there, and lends the GPU"
                    ),
                ),
                ("created_at", models.DateTimeField()),
                (
                    "leaf",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="claim", to="hardware.gpu"
                    ),
                ),
                (
                    "claimant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="claims", to="jobs.job"
                    ),
                ),
                (
                    "victim",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="claims", to="jobs.task"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="TaskAttempt",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("number", models.PositiveIntegerField(help_text="from 1, counts runs of this task")),
                (
                    "phase",
                    models.CharField(
                        choices=[("prepare", "prepare"), ("run", "run"), ("stop", "stop"), ("remove", "remove")],
                        default="prepare",
                        max_length=10,
                    ),
                ),
                (
                    "phase_since",
                    models.BigIntegerField(default=0, help_text="the node's generation that first ordered it"),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("accepted", "accepted"),
                            ("pulling", "pulling"),
                            ("prepared", "prepared"),
                            ("starting", "starting"),
                            ("running", "running"),
                            ("terminated", "terminated"),
                        ],
                        default="accepted",
                        max_length=12,
                    ),
                ),
                ("spec_hash", models.CharField(blank=True, max_length=32)),
                (
                    "spec_sealed",
                    models.TextField(blank=True, help_text="the ContainerSpec, readable with the node's key only"),
                ),
                ("cpu_milli", models.PositiveIntegerField()),
                ("memory_mb", models.PositiveIntegerField()),
                ("ports", models.JSONField(blank=True, default=dict, help_text="label -> host ports held on the node")),
                (
                    "digest",
                    models.CharField(blank=True, help_text="what the node resolved the image to", max_length=100),
                ),
                (
                    "pinned_digest",
                    models.CharField(blank=True, help_text="what it must run: the attempt's digest", max_length=100),
                ),
                (
                    "waits_for",
                    models.CharField(blank=True, help_text="an earlier attempt that may still write", max_length=200),
                ),
                ("isolation", models.CharField(blank=True, max_length=40)),
                ("container", models.CharField(blank=True, max_length=64)),
                ("progress", models.JSONField(blank=True, default=dict)),
                (
                    "lease_over_at",
                    models.DateTimeField(
                        blank=True,
                        help_text="when it last stopped waiting for an earlier attempt that still wrote",
                        null=True,
                    ),
                ),
                (
                    "ssh",
                    models.JSONField(
                        blank=True,
                        db_default={},
                        default=dict,
                        help_text="empty: not reached by SSH; else what its node told of that",
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("prepared_at", models.DateTimeField(blank=True, null=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "checkpoint_at",
                    models.DateTimeField(blank=True, help_text="when it last saved its work, as it tells", null=True),
                ),
                ("lost_at", models.DateTimeField(blank=True, null=True)),
                (
                    "parked_at",
                    models.DateTimeField(
                        blank=True,
                        help_text="since when it has been off its GPUs, which its job claims; empty: it is not",
                        null=True,
                    ),
                ),
                ("released_at", models.DateTimeField(blank=True, null=True)),
                ("removed_at", models.DateTimeField(blank=True, null=True)),
                ("stop_reason", models.CharField(blank=True, max_length=16)),
                (
                    "stop_message",
                    portal.common.sentence_field.SentenceField(
                        blank=True, default=portal.common.sentence_field.nothing
                    ),
                ),
                ("stop_grace_s", models.PositiveIntegerField(default=0)),
                ("stop_since", models.DateTimeField(blank=True, help_text="when it was first told to stop", null=True)),
                ("cause", models.CharField(blank=True, max_length=20)),
                ("exit_code", models.IntegerField(blank=True, null=True)),
                ("exit_signal", models.IntegerField(blank=True, null=True)),
                (
                    "exit_message",
                    portal.common.sentence_field.SentenceField(
                        blank=True, default=portal.common.sentence_field.nothing
                    ),
                ),
                (
                    "oom_seen",
                    models.BooleanField(
                        db_default=False,
                        default=False,
                        help_text="some process of it was killed for memory, and it ended otherwise",
                    ),
                ),
                ("log_tail", models.TextField(blank=True)),
                ("log_end", models.BigIntegerField(default=0)),
                ("log_complete", models.BooleanField(default=False)),
                ("log_dropped_lines", models.BigIntegerField(default=0)),
                ("archived_to", models.BigIntegerField(default=0)),
                (
                    "archive_gaps",
                    models.BigIntegerField(
                        db_default=0, default=0, help_text="bytes before archived_to that its node never sent"
                    ),
                ),
                (
                    "job_attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tasks", to="jobs.jobattempt"
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="task_attempts", to="hardware.node"
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="attempts", to="jobs.task"
                    ),
                ),
            ],
            options={
                "ordering": ["created_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="JobEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(db_index=True)),
                ("code", models.CharField(max_length=40)),
                ("data", models.JSONField(default=dict)),
                (
                    "actor",
                    models.CharField(blank=True, help_text="user name, or empty for Berth itself", max_length=150),
                ),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="events", to="jobs.job"
                    ),
                ),
                (
                    "job_attempt",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="jobs.jobattempt",
                    ),
                ),
                (
                    "task_attempt",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="jobs.taskattempt",
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Allocation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("virtual_cell", models.CharField(blank=True, max_length=200)),
                (
                    "standing",
                    models.CharField(choices=[("guaranteed", "Guaranteed"), ("borrowed", "Borrowed")], max_length=10),
                ),
                ("since", models.DateTimeField()),
                ("turns", models.TextField(blank=True, db_default="", default="")),
                ("created_at", models.DateTimeField()),
                ("released_at", models.DateTimeField(blank=True, null=True)),
                (
                    "leaf",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="allocations", to="hardware.gpu"
                    ),
                ),
                (
                    "task_attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="allocations", to="jobs.taskattempt"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="TaskRole",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("position", models.PositiveSmallIntegerField()),
                ("name", models.CharField(max_length=255)),
                ("instances", models.PositiveIntegerField()),
                ("least", models.PositiveIntegerField(blank=True, null=True)),
                ("gpus", models.PositiveIntegerField()),
                ("cpu_milli", models.PositiveIntegerField()),
                ("memory_mb", models.PositiveIntegerField()),
                ("pinned_cell", models.CharField(blank=True, max_length=64)),
                ("affinity_group", models.CharField(blank=True, max_length=64)),
                ("min_failed", models.IntegerField(default=1)),
                ("min_succeeded", models.IntegerField()),
                ("task_retry_count", models.IntegerField(default=0)),
                (
                    "job",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="roles", to="jobs.job"),
                ),
                (
                    "sku",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="hardware.sku",
                    ),
                ),
            ],
            options={
                "ordering": ["job_id", "position"],
            },
        ),
        migrations.AddField(
            model_name="task",
            name="role",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="tasks", to="jobs.taskrole"
            ),
        ),
        migrations.CreateModel(
            name="Usage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("resource", models.CharField(max_length=64)),
                ("hour", models.PositiveIntegerField()),
                ("amount", models.BigIntegerField()),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "vc",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="teams.virtualcluster"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="UsageMark",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("epoch", models.UUIDField(default=uuid.uuid4)),
                ("version", models.BigIntegerField(default=0)),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="one_usage_mark")],
            },
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["state", "vc"], name="job_state_vc"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["user", "submitted_at", "id"], name="job_of_user"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["vc", "submitted_at", "id"], name="job_of_vc"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["submitted_at", "id"], name="job_by_submission"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("state__in", ["running", "starting", "stopping", "waiting"])),
                fields=["submitted_at", "id"],
                name="job_live",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("state", "waiting")), fields=["priority", "id"], name="job_waiting_order"
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["name", "id"], name="job_by_name"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("ended_at__isnull", False)), fields=["ended_at", "id"], name="job_by_end"
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["priority", "id"], name="job_by_priority"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("ended_at__isnull", False), ("logs_dropped_at__isnull", True)),
                fields=["vc", "ended_at", "id"],
                name="job_with_logs",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(condition=models.Q(("code__isnull", False)), fields=["code"], name="job_by_code"),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.UniqueConstraint(fields=("user", "name", "run"), name="job_run_once"),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.UniqueConstraint(
                condition=models.Q(("submit_key", ""), _negated=True),
                fields=("user", "submit_key"),
                name="job_submit_key_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="jobattempt",
            constraint=models.UniqueConstraint(fields=("job", "number"), name="attempt_once"),
        ),
        migrations.AddConstraint(
            model_name="jobattempt",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "ended"), _negated=True), fields=("job",), name="one_live_attempt_per_job"
            ),
        ),
        migrations.AddIndex(
            model_name="jobtag",
            index=models.Index(fields=["name", "job"], name="job_by_tag"),
        ),
        migrations.AddConstraint(
            model_name="jobtag",
            constraint=models.UniqueConstraint(fields=("job", "name"), name="tag_of_job_once"),
        ),
        migrations.AddIndex(
            model_name="preemption",
            index=models.Index(condition=models.Q(("on_loan", True)), fields=["at"], name="loan_lost_at"),
        ),
        migrations.AddConstraint(
            model_name="savedview",
            constraint=models.UniqueConstraint(fields=("user", "name"), name="view_of_user_once"),
        ),
        migrations.AddIndex(
            model_name="taskattempt",
            index=models.Index(
                condition=models.Q(("removed_at__isnull", True)), fields=["node"], name="task_attempt_on_node"
            ),
        ),
        migrations.AddIndex(
            model_name="taskattempt",
            index=models.Index(
                condition=models.Q(("released_at__isnull", True)), fields=["node"], name="task_attempt_holding"
            ),
        ),
        migrations.AddIndex(
            model_name="taskattempt",
            index=models.Index(
                condition=models.Q(("cause", "unkillable"), ("released_at__isnull", True)),
                fields=["created_at"],
                name="task_attempt_unkillable",
            ),
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
        migrations.AddConstraint(
            model_name="taskattempt",
            constraint=models.UniqueConstraint(fields=("task", "number"), name="task_attempt_once"),
        ),
        migrations.AddConstraint(
            model_name="taskattempt",
            constraint=models.UniqueConstraint(
                condition=models.Q(("lost_at__isnull", True), models.Q(("state", "terminated"), _negated=True)),
                fields=("task",),
                name="one_current_attempt_per_task",
            ),
        ),
        migrations.AddIndex(
            model_name="allocation",
            index=models.Index(fields=["released_at", "created_at"], name="allocation_by_time"),
        ),
        migrations.AddConstraint(
            model_name="allocation",
            constraint=models.UniqueConstraint(
                condition=models.Q(("released_at__isnull", True)), fields=("leaf",), name="one_live_holder_per_leaf"
            ),
        ),
        migrations.AddConstraint(
            model_name="allocation",
            constraint=models.UniqueConstraint(
                condition=models.Q(("released_at__isnull", True), models.Q(("virtual_cell", ""), _negated=True)),
                fields=("virtual_cell",),
                name="one_live_holder_per_virtual_cell",
            ),
        ),
        migrations.AddConstraint(
            model_name="allocation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("standing", "borrowed"), ("virtual_cell", "")),
                    models.Q(("standing", "guaranteed"), models.Q(("virtual_cell", ""), _negated=True)),
                    _connector="OR",
                ),
                name="guaranteed_has_virtual_cell",
            ),
        ),
        migrations.AddConstraint(
            model_name="taskrole",
            constraint=models.UniqueConstraint(fields=("job", "name"), name="role_once"),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(fields=["job", "state"], name="task_job_state"),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.UniqueConstraint(fields=("role", "index"), name="task_once"),
        ),
        migrations.AddConstraint(
            model_name="usage",
            constraint=models.UniqueConstraint(fields=("hour", "vc", "user", "resource"), name="usage_once"),
        ),
        migrations.RunPython(index_parts, forget_parts),
    ]
