"""Cache of jobs' code: fetched over HTTP from the portal, by its hash, and kept for the next task that wants it.

The agent's only HTTP. Each file is named by the SHA-256 of its content and compared with it at every use, so that after
a broken download, a bad disk or a manual change it is fetched again rather than used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import requests
import structlog
from urllib3.exceptions import HTTPError

from nodes.agent.connecting import portal_endpoint
from nodes.agent.log_throttle import LogThrottle
from nodes.agent.runtimes.base import AttemptFailed, Cancelled
from nodes.agent.storage.workspace import disk_failure
from nodes.protocol import wordings
from nodes.protocol.connecting import connection_fault
from nodes.protocol.messages import Code, Progress
from nodes.protocol.states import Cause

log = structlog.get_logger(__name__)

TRIES = 3
"""How often code that arrives damaged is fetched before the task fails."""
_TIMEOUTS_S = (10, 30)
_PIECE = 64 * 1024
_WAIT_S = 0.2
_PART = ".part"


class CodeUnavailable(Exception):
    """The code cannot be fetched now; ask again soon. Its text is one sentence for people."""


class _DownloadFailed(Exception):
    """The portal does not serve it now; the text says why, and what to do."""


class CodeCache:
    """Archives under ``folder``, about ``limit`` bytes of them: the least recently used goes first. ``authority``: file
    of the one that signed the portal's certificate, where it is none of the system's."""

    def __init__(self, folder: Path, limit: int, authority: Path | None = None) -> None:
        self._folder, self._limit = folder, limit
        self._trusted = str(authority) if authority else True
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._session = requests.Session()
        self._throttles: defaultdict[str, LogThrottle] = defaultdict(LogThrottle)
        self._throttle_lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def open(
        self,
        code: Code,
        *,
        address: Callable[[], str | None],
        progress: Callable[[Progress], None],
        cancelled: Callable[[], bool],
    ) -> IO[bytes]:
        """The archive, fetched where it is not here. ``address`` gives the newest address that was ordered.

        Raises ``CodeUnavailable`` when the portal does not serve it now, ``AttemptFailed`` when it never will or the
        disk is full, ``Cancelled``.
        """
        lock = self._locks[code.sha256]
        while not lock.acquire(timeout=_WAIT_S):
            progress(Progress(code="code", message="its code is fetched by another task"))
            if cancelled():
                raise Cancelled
        try:
            path = self._folder / code.sha256
            for _ in range(TRIES):
                if (file := self._good(path, code)) is not None:
                    return file
                self._fetch(path, code, address, progress, cancelled)
            if (file := self._good(path, code)) is not None:
                return file
            raise AttemptFailed(Cause.CODE_MISSING, wordings.CODE_OTHER(tries=TRIES))
        except OSError as error:
            raise disk_failure(wordings.NOT_KEPT, error) from error
        finally:
            lock.release()

    def _good(self, path: Path, code: Code) -> IO[bytes] | None:
        """The file, open at its start, if it is there and intact; a damaged one is deleted."""
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return None
        if hashlib.file_digest(file, "sha256").hexdigest() == code.sha256:
            file.seek(0)
            os.utime(file.fileno())
            return file
        file.close()
        log.warning("code is not what its name says", sha256=code.sha256)
        path.unlink()
        return None

    def _fetch(
        self,
        path: Path,
        code: Code,
        address: Callable[[], str | None],
        progress: Callable[[Progress], None],
        cancelled: Callable[[], bool],
    ) -> None:
        """Downloads to ``path``, resuming an interrupted download."""
        part = path.with_suffix(_PART)
        have = part.stat().st_size if part.exists() else 0
        if have < code.size:
            url = address()
            if url is None:
                raise CodeUnavailable("The portal has sent no address for it yet.")
            try:
                have = self._download(url, part, have, code.size, progress, cancelled)
            except _DownloadFailed as fault:
                self._say(url, str(fault))
                raise CodeUnavailable(str(fault)) from fault
            self._say_well(url)
        if have < code.size:
            raise CodeUnavailable("Less came than it has: the rest is asked for.")
        part.replace(path)
        self._make_room(keep=path)

    def _download(
        self,
        url: str,
        part: Path,
        have: int,
        size: int,
        progress: Callable[[Progress], None],
        cancelled: Callable[[], bool],
    ) -> int:
        """Appends to ``part``; returns its size then. Raises ``_DownloadFailed``, ``AttemptFailed``, ``Cancelled``."""
        with self._answer(url, have) as answer:
            have = _kept(answer, have)
            with part.open("ab") as file:
                file.truncate(have)
                for piece in _pieces(answer):
                    file.write(piece)
                    have += len(piece)
                    progress(Progress(code="code", percent=min(100, 100 * have // size), message="its code"))
                    if cancelled():
                        raise Cancelled
                    if have > size:
                        break
        return have

    def _answer(self, url: str, have: int) -> requests.Response:
        """The portal's response to a request for everything behind the first ``have`` bytes. Raises
        ``_DownloadFailed``."""
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
        try:
            return self._session.get(
                url, headers=headers, stream=True, timeout=_TIMEOUTS_S, allow_redirects=False, verify=self._trusted
            )
        except (requests.RequestException, HTTPError, OSError) as error:
            why = connection_fault(error, portal_endpoint(url), now_ms=int(time.time() * 1000))
            raise _DownloadFailed(why) from error

    def _say(self, url: str, why: str) -> None:
        """Logs once for all tasks that wait for code from there: a corrected address keeps failing for older orders."""
        with self._throttle_lock:
            if self._throttles[urlsplit(url).netloc].new(why):
                log.warning("code is not fetched", reason=why)

    def _say_well(self, url: str) -> None:
        with self._throttle_lock:
            if self._throttles.pop(urlsplit(url).netloc, None):
                log.info("code is fetched again")

    def _make_room(self, *, keep: Path) -> None:
        """Deletes the least recently used files while there is too much, unfinished downloads included."""
        taken = 0
        for path in sorted(self._folder.iterdir(), key=_used_at, reverse=True):
            with contextlib.suppress(FileNotFoundError):
                taken += path.stat().st_size
                if taken > self._limit and path != keep and not self._locks[path.stem].locked():
                    path.unlink()

    def close(self) -> None:
        self._session.close()


def _used_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _pieces(answer: requests.Response) -> Iterator[bytes]:
    """The response's content. Raises ``_DownloadFailed``."""
    try:
        yield from answer.iter_content(_PIECE)
    except requests.RequestException as error:
        at = portal_endpoint(answer.url).at
        raise _DownloadFailed(
            f"The download from {at} broke off: look at the network, and at proxies between; it goes on where it was."
        ) from error


def _kept(answer: requests.Response, have: int) -> int:
    """How many of the bytes already here stay. Raises ``_DownloadFailed``, ``AttemptFailed``."""
    if answer.status_code == requests.codes.partial_content:
        return have
    if answer.status_code == requests.codes.ok:
        return 0
    if answer.status_code == requests.codes.gone:
        raise AttemptFailed(Cause.CODE_MISSING, wordings.CODE_GONE())
    endpoint = portal_endpoint(answer.url)
    cure = "look at its own log" if answer.status_code >= 500 else f"look whether {endpoint.setting} leads to it"
    at = f"{endpoint.at[:1].upper()}{endpoint.at[1:]}"
    raise _DownloadFailed(f"{at} does not give the code (HTTP status {answer.status_code}): if it stays so, {cure}.")
