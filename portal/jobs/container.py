"""Constants and defaults shared by every task's container."""

from __future__ import annotations

from django.conf import settings
from django.utils.translation import gettext_noop

WORKDIR = "/workspace"


def grace_seconds(wanted: int | None) -> int:
    """A job's grace period: its own or the default, capped by the administrator's limit."""
    return min(settings.DEFAULT_GRACE_S if wanted is None else wanted, settings.MAX_GRACE_S)


MASTER_PORT_LABEL = "berth_master"


PAI_PORTS = ("ssh", "http")
"""Port labels that every task has in OpenPAI, whatever its file declares."""


SSH_ASKED = {"state": "asked"}


NO_SECRETS = gettext_noop(
    "Its secrets cannot be opened: they were stored under another key than the portal has now. Submit the job again, "
    "with its secrets."
)


NO_STORAGE = gettext_noop("There is no storage %(storage)s any more, which it mounts: submit it again without it.")


NO_SPEC = gettext_noop("Its container cannot be described, and the portal's log says why: tell an administrator.")
