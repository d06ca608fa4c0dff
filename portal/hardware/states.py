"""A node's intent (what an administrator wants) and its health (what was found), kept apart."""

from enum import StrEnum

from django.db import models
from django.utils.translation import gettext_lazy as _


class NodeIntent(models.TextChoices):
    OPEN = "open", _("Open")
    CORDONED = "cordoned", _("Cordoned")
    DRAINING = "draining", _("Draining")


class NodeHealth(models.TextChoices):
    UNKNOWN = "unknown", _("Never heard of")
    HEALTHY = "healthy", _("Healthy")
    LOST = "lost", _("Lost")


class Stuck(StrEnum):
    """Why a reporting node can carry out nothing; the first that applies."""

    ENGINE = "engine"  # its container engine does not answer
    ORDERS = "orders"  # it does not take its lists of orders


class VcRole(models.TextChoices):
    MEMBER = "member", _("Member")
    LEAD = "lead", _("Lead")


class Borrow(models.TextChoices):
    """Whether jobs start on idle cells before their quota is free, if they do not say."""

    NEVER = "never", _("Never")
    AUTO = "auto", _("Automatically")


INTENT_MOVES: dict[str, frozenset[str]] = {
    NodeIntent.OPEN: frozenset({NodeIntent.CORDONED, NodeIntent.DRAINING}),
    NodeIntent.CORDONED: frozenset({NodeIntent.OPEN, NodeIntent.DRAINING}),
    NodeIntent.DRAINING: frozenset({NodeIntent.OPEN, NodeIntent.CORDONED}),
}
HEALTH_MOVES: dict[str, frozenset[str]] = {
    NodeHealth.UNKNOWN: frozenset({NodeHealth.HEALTHY}),
    NodeHealth.HEALTHY: frozenset({NodeHealth.LOST}),
    NodeHealth.LOST: frozenset({NodeHealth.HEALTHY}),
}
