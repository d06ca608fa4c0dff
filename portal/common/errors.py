"""Errors for people and programs outside: types with fields, never text to match."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.translation import gettext, gettext_noop


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with a request. ``path`` names the field (``taskRoles.train.instances``, ``limit``; empty: the
    whole), ``code`` is for programs, ``line`` (from 1) is set for job files."""

    path: str
    message: str
    code: str
    line: int | None = None


class Refused(Exception):
    """The request is understood but not carried out. ``detail`` is a sentence for people."""

    status = 400
    title = gettext_noop("Request refused")
    retry_after_s: int | None = None
    """Seconds after which it may be tried again."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Invalid(Refused):
    """The input cannot be used; ``faults`` holds every reason."""

    title = gettext_noop("Not valid")

    def __init__(self, faults: Iterable[Fault], detail: str = "") -> None:
        self.faults = tuple(faults)
        super().__init__(detail or "; ".join(fault.message for fault in self.faults[:3]))


class Denied(Refused):
    """The requester may see the thing but not do this with it."""

    status = 403
    title = gettext_noop("Not allowed")


class NotFound(Refused):
    """The thing does not exist, or the requester may not see it: both look the same. A literal ``kind`` at the call is
    thereby marked for translation."""

    status = 404
    title = gettext_noop("Not found")

    def __init__(self, kind: str, key: object = "", *, seen: Iterable[str] = ()) -> None:
        told = gettext("There is no %(what)s that you may see.") % {"what": f"{gettext(kind)} {key}".rstrip()}
        if names := ", ".join(sorted(seen)):
            told += " " + gettext("You may see: %(names)s.") % {"names": names}
        super().__init__(told)
        self.kind, self.key = kind, str(key)


class Absent(Refused):
    """The thing does not exist, and the requester may see the place where it would be."""

    status = 404
    title = gettext_noop("Not found")


class Conflict(Refused):
    """The thing is in a state that does not allow it."""

    status = 409
    title = gettext_noop("Conflict")


class ChangedMeanwhile(Conflict):
    """Somebody else has changed the thing since it was read."""


class TooLarge(Refused):
    """The body is larger than ``limit`` bytes."""

    status = 413
    title = gettext_noop("Too large")

    def __init__(self, limit: int) -> None:
        super().__init__(gettext("At most %(limit)s bytes are taken.") % {"limit": limit})
        self.limit = limit


class RateLimited(Refused):
    """Too many requests; the next is accepted in ``retry_after_s`` seconds."""

    status = 429
    title = gettext_noop("Too many requests")

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(gettext("Too many requests. Try again in %(number)s seconds.") % {"number": retry_after_s})
        self.retry_after_s = retry_after_s


class TooManyAtOnce(Refused):
    """The requester has as many under way as one user may have."""

    status = 429
    title = gettext_noop("Too many at once")
    retry_after_s = 5


class Unavailable(Refused):
    """A service that this needs cannot be reached at the moment."""

    status = 503
    title = gettext_noop("Unavailable")
    retry_after_s = 5


class Busy(Unavailable):
    """The portal has as many of these under way as it can."""
