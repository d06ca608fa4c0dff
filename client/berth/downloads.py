"""Downloads of jobs' files, which resume where they broke off."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from berth.calls import LONGEST_PAUSE, PAUSES, TRY_AGAIN, failure, problem_of
from berth.errors import BadAnswer, TlsFailed

PARTIAL, OUTSIDE = 206, 416


@dataclass
class Held:
    """The part of a file already here: its first ``size`` bytes, of the version that the server calls ``mark``. Updated
    while more comes. ``begins``: where that belongs; 0 where the file has changed, and what was there is of no use."""

    size: int = 0
    mark: str = ""
    begins: int = 0


class Download:
    """One download over as many requests as it takes: a client sends each, and reports its outcome."""

    def __init__(self, job_id: int, path: str, held: Held | None) -> None:
        self.held = held or Held()
        self.on = True
        self._address = {"url": f"jobs/{job_id}/files/content", "params": {"path": path} if path else {}}
        self._came = False
        self._pauses: Iterator[float] = iter(PAUSES)

    def request(self) -> dict[str, Any]:
        """The next request."""
        if not (self.held.size and self.held.mark):
            return self._address
        rest = {"Range": f"bytes={self.held.size}-", "If-Range": self.held.mark}
        return {**self._address, "headers": rest}

    def began(self, response: httpx.Response) -> float | None:
        """None: its pieces are to be read, if there are any; else the seconds after which to ask again. Raises
        BerthError."""
        held = self.held
        if response.status_code == OUTSIDE:
            if response.headers.get("Content-Range") == f"bytes */{held.size}":
                self.on, held.begins = False, held.size
                return None
            held.size, held.mark = 0, ""
            return 0.0
        if not response.is_success:
            return self._refused(response)
        mark = response.headers.get("ETag", "")
        held.begins = held.size if response.status_code == PARTIAL else 0
        if self._came and (held.begins != held.size or mark != held.mark):
            raise BadAnswer("the file was changed while it was downloaded: begin anew")
        held.size, held.mark = held.begins, mark
        return None

    def came(self, piece: bytes) -> None:
        """Counts a piece."""
        self._came, self._pauses = True, iter(PAUSES)
        self.held.size += len(piece)

    def broke(self, error: httpx.HTTPError) -> float:
        """Seconds until the next try. Raises Unreachable where that is impossible, or was tried often enough."""
        failed = failure(error)
        pause = next(self._pauses, None)
        if pause is None or isinstance(failed, TlsFailed) or (self._came and not self.held.mark):
            raise failed from error
        return pause * (0.5 + random.random())

    def _refused(self, response: httpx.Response) -> float:
        refused = problem_of(response)
        pause, asked = next(self._pauses, None), refused.retry_after_s or 0.0
        if pause is None or response.status_code not in TRY_AGAIN or asked > LONGEST_PAUSE:
            raise refused
        return max(pause, asked)
