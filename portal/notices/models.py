"""What people and the webhook are to be told of, what was made of it, and how far the reading of events has come."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from portal.jobs.models import Job
from portal.notices.states import DELIVERED, JobNotice, SendingState


class NoticeChoice(models.Model):
    """What a user wants to be told of by e-mail: of every job of theirs, and, while they administer the cluster, of
    its alerts."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notice_choice")
    kinds = models.JSONField(default=list, help_text="of JobNotice")
    alerts = models.BooleanField(default=True, db_default=True, help_text="unless an administrator chose otherwise")

    def __str__(self) -> str:
        return f"{self.user_id}: {', '.join(self.kinds)}"


class Place(models.Model):
    """How far the events of one table have been read: to the row ``done``. Rows up to ``fence`` may be read once none
    of the ``writers`` of then (PostgreSQL's virtual transactions) writes any more. ``told`` is what else was told."""

    source = models.CharField(primary_key=True, max_length=10)
    done = models.BigIntegerField(default=0)
    fence = models.BigIntegerField(default=0)
    writers = models.JSONField(default=list)
    told = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"{self.source} to {self.done}"


class Lane(models.Model):
    """A way out of the portal: ``mail`` or ``webhook``. One worker at a time uses it, until ``busy_until`` at most;
    while the other end does not answer nothing is tried before ``not_before``."""

    name = models.CharField(primary_key=True, max_length=10)
    busy_until = models.DateTimeField()
    not_before = models.DateTimeField()
    failures = models.PositiveIntegerField(default=0, help_text="in a row")

    def __str__(self) -> str:
        return self.name


class Sending(models.Model):
    """Something on its way out. Who sends it claims it first; a claim that ran out is anybody's. ``key`` is the same
    with every attempt."""

    key = models.UUIDField(default=uuid.uuid4, unique=True)
    state = models.CharField(max_length=10, choices=SendingState.choices, default=SendingState.WAITING)
    created_at = models.DateTimeField()
    attempts = models.PositiveIntegerField(default=0)
    next_try_at = models.DateTimeField()
    claimed_until = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True, help_text="sent, or given up")
    error = models.TextField(blank=True, help_text="of the last attempt")

    class Meta:
        abstract = True
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["next_try_at"], condition=Q(state="waiting"), name="%(class)s_due"),
            models.Index(fields=["ended_at"], name="%(class)s_ended"),
        ]


class Mail(Sending):
    """One message to one user: of one notice or of several together, or of ``alerts`` that began or are over."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mails")
    alerts = models.JSONField(null=True, blank=True, help_text="in the user's language; null: it has notices")

    class Meta(Sending.Meta):
        indexes = [*Sending.Meta.indexes, models.Index(fields=["user", "created_at"], name="mail_of_user")]

    def __str__(self) -> str:
        return f"{self.key} to {self.user_id}"


class Notice(models.Model):
    """That something happened to a job of the user's; ``times``: to so many tasks of it. Without a mail it still waits
    for one to be made."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notices")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=10, choices=JobNotice.choices)
    at = models.DateTimeField()
    message = models.TextField()
    times = models.PositiveIntegerField(default=1)
    mail = models.ForeignKey(Mail, null=True, on_delete=models.CASCADE, related_name="notices")

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["user", "id"], condition=Q(mail__isnull=True), name="notice_without_mail")]

    def __str__(self) -> str:
        return f"{self.job_id} {self.kind}"


class Webhook(models.Model):
    """The one address that an administrator has the portal tell of events. ``left_out``: deliveries that were not made
    since too many waited, and that it was not told of yet."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    url = models.CharField(max_length=2000)
    kinds = models.JSONField(default=list, help_text="of Told")
    secret_sealed = models.TextField()
    changed_at = models.DateTimeField()
    left_out = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="one_webhook")]

    def __str__(self) -> str:
        return self.url


class Delivery(Sending):
    """One message to the webhook: the same ``body`` with every attempt."""

    kind = models.CharField(max_length=20, choices=DELIVERED)
    subject = models.CharField(max_length=255, blank=True, help_text="the job, node or virtual cluster")
    body = models.TextField()
    status = models.PositiveSmallIntegerField(null=True, blank=True, help_text="of the last answer")

    def __str__(self) -> str:
        return f"{self.message_id} {self.kind}"

    @property
    def message_id(self) -> str:
        """The header ``webhook-id``."""
        return f"msg_{self.key.hex}"
