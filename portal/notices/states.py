"""What there is to be told of, and how far the telling has come."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from django.db import models
from django.utils.translation import gettext_lazy as _


class JobNotice(models.TextChoices):
    """What the owner of a job can be told of, in the words of the job file's ``notify``."""

    RUNNING = "running", _("runs")
    SUCCEEDED = "succeeded", _("succeeded")
    FAILED = "failed", _("failed")
    STOPPED = "stopped", _("was stopped")
    RETRIED = "retried", _("waits for another attempt")
    PREEMPTED = "preempted", _("is preempted")
    WARNED = "warned", _("is warned")


J = JobNotice
ENDS = frozenset({J.SUCCEEDED, J.FAILED, J.STOPPED})
OF_JOB_EVENTS: Mapping[str, tuple[JobNotice, ...]] = {
    "running": (J.RUNNING,),
    "succeeded": (J.SUCCEEDED,),
    "failed": (J.FAILED,),
    "stopped": (J.STOPPED,),
    "requeued": (J.RETRIED,),
    "ending_preempted": (J.PREEMPTED, J.WARNED),
    "task_preempted": (J.PREEMPTED, J.WARNED),
    "ending_drained": (J.WARNED,),
    "task_drained": (J.WARNED,),
    "ending_time_limit": (J.WARNED,),
    "time_limit_near": (J.WARNED,),
    "faults_counted": (J.WARNED,),
    "owner_gone": (J.WARNED,),
    "idle_warned": (J.WARNED,),
    "hang_suspected": (J.WARNED,),
    "idle_opportunistic": (J.WARNED,),
}
"""By the code of a job's event: as what it is told, to those who chose one of them."""
UNASKED = frozenset({"faults_counted"})
"""Told to those, too, who never chose anything: it comes once, and what a job has tried for hours may be in vain."""


class Told(models.TextChoices):
    """What the webhook can be told of."""

    JOB_RUNNING = "job.running", _("A job runs")
    JOB_SUCCEEDED = "job.succeeded", _("A job succeeded")
    JOB_FAILED = "job.failed", _("A job failed")
    JOB_STOPPED = "job.stopped", _("A job was stopped")
    JOB_RETRIED = "job.retried", _("A job waits for another attempt")
    JOB_PREEMPTED = "job.preempted", _("A job, or tasks of it, are preempted")
    JOB_WARNED = "job.warned", _("A job is about to be ended, or its GPUs do nothing")
    NODE_LOST = "node.lost", _("A node is lost")
    NODE_BACK = "node.back", _("A node reports, for the first time or again")
    NODE_SILENT = "node.silent", _("Most nodes fell silent together")
    NODE_GPU = "node.gpu", _("A GPU is faulty, well again, or not there any more")
    NODE_CLOCK = "node.clock", _("A node's clock is wrong")
    NODE_INTENT = "node.intent", _("A node was opened, cordoned or drained")
    QUOTA_AT_RISK = "quota.at_risk", _("Quota could not be had now, since hardware is bad")
    QUOTA_SAFE = "quota.safe", _("Quota can be had again")
    ALERT_BEGUN = "alert.begun", _("An alert has begun")
    ALERT_OVER = "alert.over", _("An alert is over")


OF_NODE_EVENTS: Mapping[str, Told] = {
    "lost": Told.NODE_LOST,
    "given_up": Told.NODE_LOST,
    "healthy": Told.NODE_BACK,
    "silent_together": Told.NODE_SILENT,
    "gpu_changed": Told.NODE_GPU,
    "gpu_gone": Told.NODE_GPU,
    "clock_wrong": Told.NODE_CLOCK,
    "disk_full": Told.NODE_INTENT,
    "disk_room": Told.NODE_INTENT,
    "engine_away": Told.NODE_INTENT,
    "engine_back": Told.NODE_INTENT,
    "orders_left": Told.NODE_INTENT,
    "orders_taken": Told.NODE_INTENT,
    "out": Told.NODE_INTENT,
    "trial": Told.NODE_INTENT,
    "trial_passed": Told.NODE_INTENT,
    "put_back": Told.NODE_INTENT,
    "intent_open": Told.NODE_INTENT,
    "intent_cordoned": Told.NODE_INTENT,
    "intent_draining": Told.NODE_INTENT,
}

PING, LEFT_OUT = "ping", "left_out"
"""What a webhook is sent whatever was chosen: on request, and when its backlog was full."""

DELIVERED = [*Told.choices, (PING, "A test"), (LEFT_OUT, "Deliveries were left out while too many waited")]


GIVE_UP_AFTER = timedelta(days=1)
"""For so long something is tried to be sent."""


AHEAD = timedelta(minutes=1)
"""So far another worker's clock may be ahead. What lies further in the future than anything is ever put there was
written by a clock that was wrong, and holds nothing up."""


class SendingState(models.TextChoices):
    WAITING = "waiting", _("Waiting")
    SENT = "sent", _("Sent")
    GIVEN_UP = "given_up", _("Given up")
