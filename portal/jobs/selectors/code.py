"""Uploaded code that a user may use and read: what they uploaded, and what jobs that they may see use. Knowing a hash
gives no access."""

from __future__ import annotations

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet

from nodes.protocol.states import Phase
from portal.accounts.models import User
from portal.code.models import CodeFolder, CodeUpload
from portal.code.store import CodeFiles
from portal.code.tickets import Ticket
from portal.common.errors import NotFound
from portal.jobs.models import TaskAttempt
from portal.jobs.selectors.visible import job_restrict

_PREFIX = "sha256:"


def code_restrict(*, user: User) -> QuerySet[CodeFolder]:
    """Code that the user may name in a job file and download, newest first."""
    own = CodeUpload.objects.filter(code=OuterRef("pk"), user=user)
    seen = job_restrict(user=user).filter(code=OuterRef("pk"))
    return CodeFolder.objects.filter(Exists(own) | Exists(seen))


def code_get(*, user: User, name: str) -> CodeFolder:
    """The code of that name (``sha256:…``); NotFound if there is none that the user may use."""
    code = code_restrict(user=user).filter(sha256=name.removeprefix(_PREFIX)).first()
    # Treat a lost file as unknown, so that it is uploaded again.
    if code is None or not CodeFiles(settings.CODE_DIR).has(code.sha256):
        raise NotFound("code", name)
    return code


def code_missing(*, user: User, name: str) -> bool:
    """Whether the user may not use this code."""
    try:
        code_get(user=user, name=name)
    except NotFound:
        return True
    return False


def code_ordered(*, ticket: Ticket) -> bool:
    """Whether the node should still prepare or run this task attempt, with this code."""
    return TaskAttempt.objects.filter(
        pk=ticket.attempt, node__name=ticket.node, phase__in=[Phase.PREPARE, Phase.RUN], removed_at__isnull=True,
        job_attempt__job__code__sha256=ticket.sha256,
    ).exists()  # fmt: skip
