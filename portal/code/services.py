"""Code that comes with jobs: uploaded once, kept as long as a job names it and for some days without one."""

from __future__ import annotations

import errno
import logging
from datetime import UTC, datetime, timedelta
from typing import IO

from django.conf import settings
from django.db import transaction
from django.db.models import Sum
from django.utils.translation import gettext

from nodes.protocol.packed import Bounds, PackedInvalid, PackedTooLarge, packed_check
from portal.accounts.audit import audit_read, audit_write
from portal.accounts.models import Audited, User
from portal.code.models import CodeFolder, CodeUpload
from portal.code.selectors import code_uploaded
from portal.code.store import CodeFiles, Received
from portal.common.errors import Conflict, Denied, Fault, Invalid, NotFound, Refused, TooManyAtOnce, Unavailable
from portal.job_file.problems import Problem, SpecInvalid
from portal.teams.selectors.visible import vcs_for_submit

EXPIRED_AT_ONCE = 200
_PART_LIVES = timedelta(days=1)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NEVER = datetime.fromtimestamp(0, UTC)
_NOTHING = {"size": 0, "unpacked": 0, "entries": 0, "created_at": _NEVER, "used_at": _NEVER}

log = logging.getLogger(__name__)


class UnpacksTooLarge(Refused):
    """The archive is small enough and holds too much."""

    status = 413
    title = "Too large"


def code_upload(*, user: User, stream: IO[bytes], now: datetime) -> tuple[CodeFolder, bool]:
    """Keep the archive that ``stream`` gives; whether the user had not uploaded it before.

    Raises Denied for whoever may not submit anywhere, TooLarge, UnpacksTooLarge, Invalid when it is no packed folder,
    Conflict when the user's code takes too much room, Unavailable when the portal's disk is full, TooManyAtOnce while
    another of the user's uploads comes in: each may hold a processor for seconds.
    """
    if not vcs_for_submit(user).exists():
        raise Denied(
            gettext("Only who may submit jobs may upload code: ask a lead for membership in a virtual cluster.")
        )
    files = CodeFiles(settings.CODE_DIR)
    try:
        with files.turn(user.pk) as alone:
            if not alone:
                raise TooManyAtOnce(gettext("An upload of yours is being looked at. Wait until it is through."))
            with files.receive(stream, settings.CODE_MAX_BYTES) as received:
                holds = _checked(received)
                _room_check(user, received)
                return _keep(user, files, received, holds, now)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise Unavailable(gettext("The portal's disk is full: tell an administrator.")) from error


def code_forget(*, user: User, code: CodeFolder, now: datetime) -> None:
    """Take the user's upload back; jobs that name it keep it. Raises NotFound when they did not upload it."""
    with transaction.atomic():
        gone, _ = CodeUpload.objects.filter(code=code, user=user).delete()
        if not gone:
            raise NotFound("code of yours", code.name)
        audit_write(Audited.CODE_FORGET, actor=user.username, target=code.name, now=now)


def code_hold(*, name: str, now: datetime) -> CodeFolder:
    """The code for a job that is stored in the caller's transaction; it stays from now on. Raises SpecInvalid when it
    is gone."""
    found = CodeFolder.objects.filter(sha256=name.removeprefix("sha256:"))
    if not found.update(used_at=now):
        raise SpecInvalid([Problem("extras.berth.code", f"the code {name} is gone: upload it again", "unknown")])
    return found.get()


def code_expire(*, now: datetime) -> int:
    """Delete what no job names and nobody uploaded or used of late, archives that the database does not know, and
    uploads that broke off. Returns how many of the first two."""
    files = CodeFiles(settings.CODE_DIR)
    files.sweep(before=(now - _PART_LIVES).timestamp())
    oldest = now - timedelta(days=settings.CODE_KEPT_DAYS)
    unused = CodeFolder.objects.filter(used_at__lt=oldest, jobs__isnull=True).order_by("used_at")
    keys = list(unused.values_list("pk", flat=True)[:EXPIRED_AT_ONCE])
    return sum(_expire(key, files, oldest) for key in keys) + sum(_stray(one, files) for one in _unknown(files, oldest))


def _expire(key: int, files: CodeFiles, oldest: datetime) -> bool:
    with transaction.atomic():
        code = CodeFolder.objects.select_for_update().filter(pk=key, used_at__lt=oldest).first()
        if code is None or code.jobs.exists():
            return False
        code.delete()
        # While the row is held: who uploads the same now waits for it, and puts the file there anew.
        files.remove(code.sha256)
    log.info("code %s deleted: unused for %s days", code.name, settings.CODE_KEPT_DAYS)
    return True


def _unknown(files: CodeFiles, oldest: datetime) -> list[str]:
    """Archives as old without a row: their upload was killed before its commit, or their rows are of after the backup
    that was restored. None where the database knows of no code at all: then it may rather be that which is wrong."""
    there = files.older(than=oldest.timestamp())
    known = set(CodeFolder.objects.values_list("sha256", flat=True)) if there else set()
    return [sha256 for sha256 in there if sha256 not in known][:EXPIRED_AT_ONCE] if known else []


def _stray(sha256: str, files: CodeFiles) -> bool:
    with transaction.atomic():
        # A row that nobody else sees: who uploads the same now waits for it, as above.
        code, alone = CodeFolder.objects.get_or_create(sha256=sha256, defaults=_NOTHING)
        if alone:
            files.remove(sha256)
            code.delete()
    if alone:
        log.info("code %s deleted: the database does not know it", code.name)
    return alone


def _checked(received: Received) -> Bounds:
    most = Bounds(unpacked=settings.CODE_UNPACKED_MAX_BYTES, entries=settings.CODE_MAX_ENTRIES)
    try:
        with received.path.open("rb") as file:
            return packed_check(file, most)
    except PackedTooLarge as error:
        raise UnpacksTooLarge(gettext("The folder is too large: %(reason)s.") % {"reason": error.reason}) from error
    except PackedInvalid as error:
        message = gettext("This is no packed folder: %(reason)s.") % {"reason": error.reason}
        raise Invalid([Fault("", message, "archive")]) from error


def _room_check(user: User, received: Received) -> None:
    others = code_uploaded(user=user).exclude(sha256=received.sha256)
    taken = others.aggregate(all=Sum("size"))["all"] or 0
    if taken + received.size > settings.CODE_USER_BYTES:
        raise Conflict(
            gettext(
                "Your uploaded code takes %(taken)s MB here, and %(most)s MB is the most. "
                "Take some back with DELETE /api/v1/code/{id}."
            )
            % {"taken": f"{taken >> 20:,}", "most": f"{settings.CODE_USER_BYTES >> 20:,}"}
        )


def _keep(user: User, files: CodeFiles, received: Received, holds: Bounds, now: datetime) -> tuple[CodeFolder, bool]:
    made = {"size": received.size, "unpacked": holds.unpacked, "entries": holds.entries}
    while True:
        with transaction.atomic():
            code, _ = CodeFolder.objects.get_or_create(
                sha256=received.sha256, defaults={**made, "created_at": now, "used_at": now}
            )
            if not CodeFolder.objects.filter(pk=code.pk).update(used_at=now):
                continue  # it expired between the two
            files.keep(received)
            _, first = CodeUpload.objects.get_or_create(code=code, user=user, defaults={"at": now})
            if first:
                audit_write(Audited.CODE_UPLOAD, actor=user.username, target=code.name, now=now, after=made)
            return code, first


def code_read(*, user: User, code: CodeFolder, now: datetime) -> None:
    """The user downloads this code: an entry in the audit log where they did not upload it."""
    if not CodeUpload.objects.filter(code=code, user=user).exists():
        audit_read(Audited.CODE_READ, actor=user.username, target=code.name, now=now)
