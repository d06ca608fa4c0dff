"""Errors of the client: types with fields, never text to match. All are `BerthError`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with what was sent. ``path`` names the place (``taskRoles.train.instances``; empty: the whole),
    ``code`` is for programs, ``line`` (from 1) is known for job files."""

    path: str
    message: str
    code: str = ""
    line: int | None = None


class BerthError(Exception):
    """Base of all errors of this client. ``str()`` is a sentence for people."""


class Misused(BerthError):
    """A request that cannot be made: an invalid address, an unreadable certificate."""


class FolderTooLarge(Misused):
    """A folder of code is larger than the server takes; ``largest``: its largest files with their bytes."""

    def __init__(self, sentence: str, largest: tuple[tuple[str, int], ...]) -> None:
        super().__init__(sentence)
        self.largest = largest


class Unreachable(BerthError):
    """The server did not answer: away, cut off, or too slow."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"{url} cannot be reached: {why}")
        self.url, self.why = url, why


class TlsFailed(Unreachable):
    """The server's certificate could not be trusted, or it speaks no TLS. ``cure``: a sentence on what to do."""

    def __init__(self, url: str, why: str, cure: str = "") -> None:
        super().__init__(url, why)
        self.cure = cure


class BadAnswer(BerthError):
    """The answer cannot be read: not from Berth, or from another version."""


class LogIncomplete(BerthError):
    """The end of an ended task's log did not come: what was given is not all of it. ``offset``: where it goes on."""

    def __init__(self, offset: int, waited_s: float) -> None:
        super().__init__(f"the end of the log has not come within {waited_s:g} s: it is not all here")
        self.offset, self.waited_s = offset, waited_s


class SocketRefused(BadAnswer):
    """Something before the server lets no websocket through."""


class JobUnfinished(BerthError):
    """Waiting for a job took longer than allowed; the job goes on."""

    def __init__(self, job_id: int, state: str, waited_s: float) -> None:
        super().__init__(f"job {job_id} is still {state} after {waited_s:g} s")
        self.job_id, self.state, self.waited_s = job_id, state, waited_s


class ShellLost(BerthError):
    """A program in a task ended without an exit status: its task or node ended, or it never began."""


class Problem(BerthError):
    """A refusal of the server (RFC 9457): ``errors`` holds every reason with its path."""

    def __init__(
        self, status: int, title: str, detail: str, errors: tuple[Fault, ...] = (), retry_after_s: float | None = None
    ) -> None:
        super().__init__(detail or title)
        self.status, self.title, self.detail = status, title, detail
        self.errors, self.retry_after_s = errors, retry_after_s


class NotValid(Problem):
    """400, 413, 415, 422: the request cannot be used."""


class NotSignedIn(Problem):
    """401: no token, or one that is expired, revoked or unknown."""


class NotAllowed(Problem):
    """403: you may see the thing, but not do this; or the token's scope does not reach."""


class NotFound(Problem):
    """404: there is no such thing that you may see."""


class Conflict(Problem):
    """409: the thing is in a state that does not allow it."""


class TooMany(Problem):
    """429: too often; ``retry_after_s`` says how long to wait."""


class ServerFault(Problem):
    """5xx: the server, or a part that it needs, has a fault."""


KINDS: dict[int, type[Problem]] = {
    400: NotValid,
    401: NotSignedIn,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    413: NotValid,
    415: NotValid,
    422: NotValid,
    429: TooMany,
}


def kind_of(status: int) -> type[Problem]:
    """The type of a refusal with this status."""
    return KINDS.get(status, ServerFault if status >= 500 else Problem)
