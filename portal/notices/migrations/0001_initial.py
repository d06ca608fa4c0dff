import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("jobs", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Lane",
            fields=[
                ("name", models.CharField(max_length=10, primary_key=True, serialize=False)),
                ("busy_until", models.DateTimeField()),
                ("not_before", models.DateTimeField()),
                ("failures", models.PositiveIntegerField(default=0, help_text="in a row")),
            ],
        ),
        migrations.CreateModel(
            name="Place",
            fields=[
                ("source", models.CharField(max_length=10, primary_key=True, serialize=False)),
                ("done", models.BigIntegerField(default=0)),
                ("fence", models.BigIntegerField(default=0)),
                ("writers", models.JSONField(default=list)),
                ("told", models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.UUIDField(default=uuid.uuid4, unique=True)),
                (
                    "state",
                    models.CharField(
                        choices=[("waiting", "Waiting"), ("sent", "Sent"), ("given_up", "Given up")],
                        default="waiting",
                        max_length=10,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("next_try_at", models.DateTimeField()),
                ("claimed_until", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, help_text="sent, or given up", null=True)),
                ("error", models.TextField(blank=True, help_text="of the last attempt")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("job.running", "A job runs"),
                            ("job.succeeded", "A job succeeded"),
                            ("job.failed", "A job failed"),
                            ("job.stopped", "A job was stopped"),
                            ("job.retried", "A job waits for another attempt"),
                            ("job.preempted", "A job, or tasks of it, are preempted"),
                            ("job.warned", "A job is about to be ended, or its GPUs do nothing"),
                            ("node.lost", "A node is lost"),
                            ("node.back", "A node reports, for the first time or again"),
                            ("node.silent", "Most nodes fell silent together"),
                            ("node.gpu", "A GPU is faulty, well again, or not there any more"),
                            ("node.clock", "A node's clock is wrong"),
                            ("node.intent", "A node was opened, cordoned or drained"),
                            ("quota.at_risk", "Quota could not be had now, since hardware is bad"),
                            ("quota.safe", "Quota can be had again"),
                            ("alert.begun", "An alert has begun"),
                            ("alert.over", "An alert is over"),
                            ("ping", "A test"),
                            ("left_out", "Deliveries were left out while too many waited"),
                        ],
                        max_length=20,
                    ),
                ),
                ("subject", models.CharField(blank=True, help_text="the job, node or virtual cluster", max_length=255)),
                ("body", models.TextField()),
                ("status", models.PositiveSmallIntegerField(blank=True, help_text="of the last answer", null=True)),
            ],
            options={
                "ordering": ["-id"],
                "abstract": False,
                "indexes": [
                    models.Index(condition=models.Q(("state", "waiting")), fields=["next_try_at"], name="delivery_due"),
                    models.Index(fields=["ended_at"], name="delivery_ended"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Mail",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.UUIDField(default=uuid.uuid4, unique=True)),
                (
                    "state",
                    models.CharField(
                        choices=[("waiting", "Waiting"), ("sent", "Sent"), ("given_up", "Given up")],
                        default="waiting",
                        max_length=10,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("next_try_at", models.DateTimeField()),
                ("claimed_until", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, help_text="sent, or given up", null=True)),
                ("error", models.TextField(blank=True, help_text="of the last attempt")),
                (
                    "alerts",
                    models.JSONField(blank=True, help_text="in the user's language; null: it has notices", null=True),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="mails", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Notice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("running", "runs"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("stopped", "was stopped"),
                            ("retried", "waits for another attempt"),
                            ("preempted", "is preempted"),
                            ("warned", "is warned"),
                        ],
                        max_length=10,
                    ),
                ),
                ("at", models.DateTimeField()),
                ("message", models.TextField()),
                ("times", models.PositiveIntegerField(default=1)),
                (
                    "job",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="jobs.job"),
                ),
                (
                    "mail",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notices",
                        to="notices.mail",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="notices", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="NoticeChoice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kinds", models.JSONField(default=list, help_text="of JobNotice")),
                (
                    "alerts",
                    models.BooleanField(
                        db_default=True, default=True, help_text="unless an administrator chose otherwise"
                    ),
                ),
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notice_choice",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Webhook",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("url", models.CharField(max_length=2000)),
                ("kinds", models.JSONField(default=list, help_text="of Told")),
                ("secret_sealed", models.TextField()),
                ("changed_at", models.DateTimeField()),
                ("left_out", models.PositiveIntegerField(default=0)),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="one_webhook")],
            },
        ),
        migrations.AddIndex(
            model_name="mail",
            index=models.Index(condition=models.Q(("state", "waiting")), fields=["next_try_at"], name="mail_due"),
        ),
        migrations.AddIndex(
            model_name="mail",
            index=models.Index(fields=["ended_at"], name="mail_ended"),
        ),
        migrations.AddIndex(
            model_name="mail",
            index=models.Index(fields=["user", "created_at"], name="mail_of_user"),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(
                condition=models.Q(("mail__isnull", True)), fields=["user", "id"], name="notice_without_mail"
            ),
        ),
    ]
