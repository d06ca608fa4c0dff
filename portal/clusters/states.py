"""A node's intent (what an administrator wants of it) and its health (what was found) are two things."""

from django.db import models


class NodeIntent(models.TextChoices):
    OPEN = "open", "Open"
    CORDONED = "cordoned", "Cordoned"
    DRAINING = "draining", "Draining"


class NodeHealth(models.TextChoices):
    UNKNOWN = "unknown", "Never heard of"
    HEALTHY = "healthy", "Healthy"
    LOST = "lost", "Lost"


class VcRole(models.TextChoices):
    MEMBER = "member", "Member"
    LEAD = "lead", "Lead"


class Borrow(models.TextChoices):
    """Whether jobs that say nothing about it start on idle cells before their quota is free."""

    NEVER = "never", "Never"
    AUTO = "auto", "Automatically"


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
