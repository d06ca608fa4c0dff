"""What was asked of the GPUs of tasks, and what their nodes said."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from portal.common.sentence_field import SentenceField
from portal.jobs.models.attempt import TaskAttempt


class ParkState(models.TextChoices):
    """Where a task is between its GPU and its server's memory."""

    PARKING = "parking", _("Being parked")
    PARKED = "parked", _("Parked")
    WANTED = "wanted", _("Waits for its GPU")
    RESUMING = "resuming", _("Going back to its GPU")
    HELD = "held", _("On its GPU")


OFF = frozenset({ParkState.PARKING, ParkState.PARKED, ParkState.WANTED})
"""States in which its node is to keep it off its GPU."""


class Parking(models.Model):
    """A task that was to be parked once, and how that stands.

    ``turn`` numbers what its node was asked of its GPU, so that of two messages the newer one counts. ``cause``: who
    parked it, or why. ``fault``: what stood in the way of the last turn. While it is parked its ``TaskAttempt`` has a
    ``parked_at``, holds no GPU, and its job claims the one that it left.
    """

    task_attempt = models.OneToOneField(TaskAttempt, primary_key=True, on_delete=models.CASCADE, related_name="parking")
    turn = models.PositiveIntegerField()
    state = models.CharField(max_length=10, choices=ParkState.choices)
    cause = SentenceField()
    changed_at = models.DateTimeField()
    parked_mb = models.PositiveIntegerField(default=0, help_text="of its GPU's memory in the server's")
    never = models.BooleanField(default=False, help_text="its process cannot be parked: it is not tried again")
    fault = SentenceField()

    lent_to: str
    """Set by `parking_told`: who has its GPU now."""

    class Meta:
        indexes = [models.Index(fields=["state"], condition=~models.Q(state=ParkState.HELD), name="parking_now")]

    def __str__(self) -> str:
        return f"{self.task_attempt_id}: {self.state}"
