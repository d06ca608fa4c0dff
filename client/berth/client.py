"""The clients: one that blocks and one to be awaited, with the same methods."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, cast

import httpx

from berth.administration import Groups, Images, Storages, Templates, Users
from berth.calls import Call, FileBody, Listing, LocalWork, Pause, Steps, failure, problem_of
from berth.cluster import Nodes, VirtualClusters
from berth.downloads import Download, Held
from berth.endpoint import Awaiting, Blocking, ExecutorT_co
from berth.jobs import CodeFolders, Jobs
from berth.logs import END_S, MOST_BYTES, PATIENCE_S, AsyncLogFollow, LogCursor, LogFollow, LogRemainder, Tail, no_tail
from berth.model.base import Page
from berth.root import RootResource, Tokens
from berth.server import Server
from berth.shell import AsyncShell, Shell, ShellOptions, Terminal

T = TypeVar("T")
TIMEOUT_S = 30.0


class BaseClient(RootResource[ExecutorT_co], ABC):
    """Base of both clients: a server, and the parts of its API.

    ``url`` is the portal's address, ``token`` one made by ``login`` or on the profile page; ``ca_file`` names
    certificates to trust instead of the usual ones, ``trust_env`` says whether proxies and certificates of the
    environment are used.
    """

    def __init__(
        self,
        url: str,
        token: str = "",
        *,
        timeout_s: float = TIMEOUT_S,
        ca_file: str | None = None,
        trust_env: bool = True,
    ) -> None:
        executor = cast(ExecutorT_co, self)
        super().__init__(executor)
        self.server = Server(url, token, ca_file, trust_env)
        self.jobs: Jobs[ExecutorT_co] = Jobs(executor)
        self.code: CodeFolders[ExecutorT_co] = CodeFolders(executor)
        self.nodes: Nodes[ExecutorT_co] = Nodes(executor)
        self.virtual_clusters: VirtualClusters[ExecutorT_co] = VirtualClusters(executor)
        self.tokens: Tokens[ExecutorT_co] = Tokens(executor)
        self.users: Users[ExecutorT_co] = Users(executor)
        self.storages: Storages[ExecutorT_co] = Storages(executor)
        self.images: Images[ExecutorT_co] = Images(executor)
        self.templates: Templates[ExecutorT_co] = Templates(executor)
        self.groups: Groups[ExecutorT_co] = Groups(executor)
        self._open(**self.server.http(timeout_s))

    @abstractmethod
    def _open(self, **options: Any) -> None:
        """Makes the HTTP client."""


class Client(BaseClient[Blocking], Blocking):
    """Berth's REST API. Close it, or use it in a ``with``. Every method raises `BerthError` and its kinds.
    Thread-safe."""

    def _open(self, **options: Any) -> None:
        self._http = httpx.Client(**options)

    def carry_out(self, steps: Steps[T]) -> T:
        """Carries out each step, until the result is there."""
        try:
            step = next(steps)
            while True:
                try:
                    done = self._take(step)
                except httpx.HTTPError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(done)
        except StopIteration as end:
            result: T = end.value
            return result

    def _take(self, step: Call[Any] | Pause | LocalWork[Any]) -> Any:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        if isinstance(step, LocalWork):
            return step.do()
        body = step.content.pieces() if isinstance(step.content, FileBody) else step.content
        return self._http.request(content=body, **_request(step))

    def walk(self, listing: Listing[T]) -> Iterator[T]:
        """Each row of each page."""
        call: Call[Page[T]] | None = listing.first()
        while call is not None:
            page = self.carry_out(call.steps())
            yield from page.results
            call = listing.after(page)

    def log_text(self, job_id: int, task_attempt: str, *, patience_s: float = END_S) -> Iterator[str]:
        """The whole log as it is now, in pieces, however long it is; of a task that has ended, to its end, which may be
        on its way: raises LogIncomplete when nothing more of it comes for ``patience_s``."""
        try:
            with self._http.stream("GET", **_log_text(job_id, task_attempt)) as response:
                if not response.is_success:
                    response.read()
                    raise problem_of(response)
                rest = _rest_of_log(response, patience_s)
                yield from response.iter_text()
        except httpx.HTTPError as error:
            raise failure(error) from error
        while not rest.over:
            piece = self.jobs.log(job_id, task_attempt, offset=rest.offset, limit=MOST_BYTES)
            yield "".join(text for _, _, text in piece.records)
            time.sleep(rest.take(piece))

    def download(self, job_id: int, path: str = "", *, held: Held | None = None) -> Iterator[bytes]:
        """A file of a job's folder in pieces, or a folder of it as a tar archive. A file resumes by itself after a lost
        connection, and behind what is ``held`` of it already. Raises BerthError, also in the middle."""
        download = Download(job_id, path, held)
        while download.on:
            try:
                with self._http.stream("GET", **download.request()) as response:
                    if not response.is_success:
                        response.read()
                    rest = download.began(response)
                    if rest is None and download.on:
                        for piece in response.iter_bytes():
                            download.came(piece)
                            yield piece
                        return
            except httpx.HTTPError as error:
                rest = download.broke(error)
            time.sleep(rest or 0.0)

    def exec(self, task_attempt: str, command: Sequence[str] = (), **terminal: Unpack[Terminal]) -> Shell:
        """A program in a running task (without a command, its best shell), on pipes or, by ``tty=True``, on a terminal
        of ``rows``, ``columns`` and type ``term``. Use it in a ``with``."""
        return Shell(self.server, ShellOptions(task_attempt, command, **terminal))

    def follow(
        self, task_attempt: str, *, offset: int | str = 0, patience_s: float = PATIENCE_S, tail: Tail = no_tail
    ) -> LogFollow:
        """A log from ``offset`` on (``"tail"``: from shortly before its end) and live until it has ended. A lost
        connection resumes where it broke; raises Unreachable after ``patience_s`` without one. ``tail`` receives
        unfinished lines, such as a progress bar; they come as records all the same."""
        return LogFollow(LogCursor(self.server, task_attempt, offset, patience_s, tail))

    def close(self) -> None:
        """Closes its connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class AsyncClient(BaseClient[Awaiting], Awaiting):
    """The same, with methods to be awaited and lists for ``async for``."""

    def _open(self, **options: Any) -> None:
        self._http = httpx.AsyncClient(**options)

    async def carry_out(self, steps: Steps[T]) -> T:
        """Carries out each step, until the result is there."""
        try:
            step = next(steps)
            while True:
                try:
                    done = await self._take(step)
                except httpx.HTTPError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(done)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _take(self, step: Call[Any] | Pause | LocalWork[Any]) -> Any:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        if isinstance(step, LocalWork):
            return await asyncio.to_thread(step.do)
        body = _sent_async(step.content) if isinstance(step.content, FileBody) else step.content
        return await self._http.request(content=body, **_request(step))

    async def walk(self, listing: Listing[T]) -> AsyncIterator[T]:
        """Each row of each page."""
        call: Call[Page[T]] | None = listing.first()
        while call is not None:
            page = await self.carry_out(call.steps())
            for row in page.results:
                yield row
            call = listing.after(page)

    async def log_text(self, job_id: int, task_attempt: str, *, patience_s: float = END_S) -> AsyncIterator[str]:
        """See `Client.log_text`."""
        try:
            async with self._http.stream("GET", **_log_text(job_id, task_attempt)) as response:
                if not response.is_success:
                    await response.aread()
                    raise problem_of(response)
                rest = _rest_of_log(response, patience_s)
                async for text in response.aiter_text():
                    yield text
        except httpx.HTTPError as error:
            raise failure(error) from error
        while not rest.over:
            piece = await self.jobs.log(job_id, task_attempt, offset=rest.offset, limit=MOST_BYTES)
            yield "".join(text for _, _, text in piece.records)
            await asyncio.sleep(rest.take(piece))

    async def download(self, job_id: int, path: str = "", *, held: Held | None = None) -> AsyncIterator[bytes]:
        """See `Client.download`."""
        download = Download(job_id, path, held)
        while download.on:
            try:
                async with self._http.stream("GET", **download.request()) as response:
                    if not response.is_success:
                        await response.aread()
                    rest = download.began(response)
                    if rest is None and download.on:
                        async for piece in response.aiter_bytes():
                            download.came(piece)
                            yield piece
                        return
            except httpx.HTTPError as error:
                rest = download.broke(error)
            await asyncio.sleep(rest or 0.0)

    def exec(self, task_attempt: str, command: Sequence[str] = (), **terminal: Unpack[Terminal]) -> AsyncShell:
        """See `Client.exec`."""
        return AsyncShell(self.server, ShellOptions(task_attempt, command, **terminal))

    def follow(
        self, task_attempt: str, *, offset: int | str = 0, patience_s: float = PATIENCE_S, tail: Tail = no_tail
    ) -> AsyncLogFollow:
        """See `Client.follow`."""
        return AsyncLogFollow(LogCursor(self.server, task_attempt, offset, patience_s, tail))

    async def close(self) -> None:
        """Closes its connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()


def _request(call: Call[Any]) -> dict[str, Any]:
    return {
        "method": call.method,
        "url": call.path,
        "params": dict(call.params),
        "headers": dict(call.headers),
    }


async def _sent_async(body: FileBody) -> AsyncIterator[bytes]:
    for piece in body.pieces():
        yield piece


def _rest_of_log(response: httpx.Response, patience_s: float) -> LogRemainder:
    """What is missing behind this text; nothing while the task runs."""
    rest = LogRemainder(int(response.headers.get("Berth-Log-End", 0)), patience_s)
    whole, over = (response.headers.get(name) for name in ("Berth-Log-Complete", "Berth-Task-Over"))
    rest.over = whole != "false" or over != "true"
    return rest


def _log_text(job_id: int, task_attempt: str) -> dict[str, Any]:
    return {"url": f"jobs/{job_id}/logs", "params": {"task_attempt": task_attempt, "format": "text"}}
