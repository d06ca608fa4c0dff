"""Jobs and their code in the API, each method written once for both clients."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from berth.calls import (
    LONG,
    Call,
    FileBody,
    Listing,
    LocalWork,
    Pause,
    Steps,
    get,
    not_none,
    nothing,
    reading,
    send,
    text,
)
from berth.endpoint import ExecutorT_co, Resource, endpoint, procedure, rows
from berth.errors import JobUnfinished, NotFound
from berth.job_file import with_code
from berth.model.jobs import (
    LIVE,
    Attempt,
    Code,
    CodeLimits,
    Estimate,
    Event,
    File,
    Job,
    JobAdvice,
    JobDetail,
    LogSlice,
    Metrics,
    Moved,
    Preemption,
    Tags,
    Task,
    Validation,
)
from berth.packing import Archive, pack

YAML = {"Content-Type": "application/yaml"}


def _file(path: str, answer: Any, document: str | bytes, headers: dict[str, str], *, repeatable: bool) -> Call[Any]:
    """A call whose body is a job file; JSON is YAML too."""
    content = document.encode() if isinstance(document, str) else document
    return Call("POST", path, reading(answer), content=content, headers={**YAML, **headers}, repeatable=repeatable)


class Jobs(Resource[ExecutorT_co]):
    """Jobs. ``document`` is a job file as YAML or JSON."""

    @endpoint
    def submit(self, document: str | bytes, *, key: str | None = None, code: str | None = None) -> Call[JobDetail]:
        """Submits a job file. Sent again with the same ``key`` it is the same job; one is made up where none is given,
        so that a broken connection never submits twice. ``code``: the id of an uploaded folder that comes with it.
        Raises NotValid with every problem of the file."""
        document = with_code(document, code) if code else document
        return _file("jobs", JobDetail, document, {"Idempotency-Key": key or uuid.uuid4().hex}, repeatable=True)

    @endpoint
    def validate(self, document: str | bytes) -> Call[Validation]:
        """Whether the file would be accepted, with every problem; nothing is stored."""
        return _file("validate", Validation, document, {}, repeatable=True)

    @endpoint
    def estimate(self, document: str | bytes) -> Call[Estimate]:
        """Whether the job would start now and where, or why it would wait and until when; nothing is stored."""
        return _file("estimates", Estimate, document, {}, repeatable=True)

    @rows
    def list(
        self,
        *,
        state: Sequence[str] = (),
        vc: str | None = None,
        user: str | None = None,
        name: str | None = None,
        since: datetime | None = None,
        order: str | None = None,
        page: int | None = None,
    ) -> Listing[Job]:
        """Jobs you may see, newest first, or in another ``order``: submitted_at, name, priority, or ended_at, which
        leaves out what is not over; with a minus the other way round. ``name`` is a part of the name, ``page`` how many
        rows a request brings."""
        when = since.isoformat() if since else None
        chosen = {"state": [*state] or None, "vc": vc, "user": user, "name": name, "since": when}
        return Listing("jobs", Job, not_none({**chosen, "ordering": order, "limit": page}))

    @endpoint
    def get(self, job_id: int) -> Call[JobDetail]:
        """State and cause, why it waits and at which place, task roles, the newest attempt."""
        return get(f"jobs/{job_id}", JobDetail)

    @endpoint
    def stop(self, job_id: int) -> Call[JobDetail]:
        """Stops it: at once where it waits, else by SIGTERM and its grace period. Raises Conflict once it is over."""
        return send("POST", f"jobs/{job_id}/stop", JobDetail)

    @endpoint
    def pause(self, job_id: int) -> Call[JobDetail]:
        """Pauses a waiting job. Raises Conflict when it does not wait."""
        return send("POST", f"jobs/{job_id}/pause", JobDetail, repeatable=True)

    @endpoint
    def park(self, job_id: int) -> Call[JobDetail]:
        """Takes a running job off its GPU, which is lent until it is resumed. Raises Conflict when it cannot be."""
        return send("POST", f"jobs/{job_id}/park", JobDetail, repeatable=True)

    @endpoint
    def resume(self, job_id: int) -> Call[JobDetail]:
        """Resumes a paused or parked job. Raises Conflict when it is neither and does not wait."""
        return send("POST", f"jobs/{job_id}/resume", JobDetail, repeatable=True)

    @endpoint
    def move(self, job_id: int, vc: str) -> Call[Moved]:
        """Moves a waiting job to another virtual cluster."""
        return send("POST", f"jobs/{job_id}/move", Moved, {"vc": vc})

    @endpoint
    def tag(self, job_id: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Call[Tags]:
        """Adds tags to a job and removes some; its tags then. Raises Conflict when it would have too many."""
        return send("PATCH", f"jobs/{job_id}/tags", Tags, {"add": [*add], "remove": [*remove]}, repeatable=True)

    @endpoint
    def change_priority(self, job_id: int, priority_class: str) -> Call[JobDetail]:
        """Gives a job that waits or runs another class: crit, prod, test or oppo. Raises NotValid, Conflict."""
        asked = {"priority_class": priority_class}
        return send("POST", f"jobs/{job_id}/priority", JobDetail, asked, repeatable=True)

    @endpoint
    def place(
        self, job_id: int, *, to: str | None = None, before: int | None = None, after: int | None = None
    ) -> Call[JobDetail]:
        """Moves a waiting job in the queue of its class: right before or behind another one, to the `front`, or to its
        `own` place, where it would stand by itself. Raises Conflict."""
        asked = not_none({"to": to, "before": before, "after": after})
        return send("POST", f"jobs/{job_id}/place", JobDetail, asked, repeatable=True)

    @endpoint
    def config(self, job_id: int) -> Call[str]:
        """The job file as it was sent, its secrets masked."""
        return Call("GET", f"jobs/{job_id}/config", text, repeatable=True)

    @rows
    def events(self, job_id: int) -> Listing[Event]:
        """What happened, oldest first."""
        return Listing(f"jobs/{job_id}/events", Event, LONG)

    @rows
    def attempts(self, job_id: int) -> Listing[Attempt]:
        """The job's runs, newest first."""
        return Listing(f"jobs/{job_id}/attempts", Attempt, LONG)

    @rows
    def preemptions(self, job_id: int) -> Listing[Preemption]:
        """GPUs taken from it or for it, newest first."""
        return Listing(f"jobs/{job_id}/preemptions", Preemption, LONG)

    @rows
    def tasks(self, job_id: int, *, attempt: int | None = None) -> Listing[Task]:
        """Its tasks in the file's order, with their newest attempts, or those of one attempt of the job."""
        return Listing(f"jobs/{job_id}/tasks", Task, not_none({"attempt": attempt, **LONG}))

    @endpoint
    def log(self, job_id: int, task_attempt: str, *, offset: int = 0, limit: int | None = None) -> Call[LogSlice]:
        """A slice of a log, about ``limit`` bytes from ``offset`` on. For all of it see the client's ``log_text``; to
        go along with it, ``follow``."""
        params = {"task_attempt": task_attempt, "offset": offset, "limit": limit}
        return get(f"jobs/{job_id}/logs", LogSlice, params)

    @rows
    def files(self, job_id: int, path: str = "") -> Listing[File]:
        """Entries of its folder, or of one below it, by name; of a file, that file alone. ``path`` is as in
        `File.path`. For the contents see the client's ``download``."""
        return Listing(f"jobs/{job_id}/files", File, not_none({"path": path or None, "limit": 1000}))

    @endpoint
    def metrics(
        self,
        job_id: int,
        *,
        task_attempt: str | None = None,
        role: str | None = None,
        index: int | None = None,
        attempt: int | None = None,
        gpu: int | None = None,
        first: datetime | None = None,
        end: datetime | None = None,
        step: int | None = None,
    ) -> Call[Metrics]:
        """Curves of a task's CPU, memory and GPUs, up to now where it runs: of the task attempt named, else of the
        newest of ``role`` and ``index`` (in the job's ``attempt``). From ``first`` on and before ``end``, in points of
        at least ``step`` seconds, of the GPU with index ``gpu`` alone."""
        moments = {"from": first.isoformat() if first else None, "to": end.isoformat() if end else None}
        chosen = {"task_attempt": task_attempt, "role": role, "index": index, "attempt": attempt, "gpu": gpu}
        return get(f"jobs/{job_id}/metrics", Metrics, {**chosen, **moments, "step": step})

    @endpoint
    def advice(self, job_id: int) -> Call[JobAdvice]:
        """What its newest attempt asked for and did not use, and what holds it up; empty before ten minutes."""
        return get(f"jobs/{job_id}/advice", JobAdvice)

    @procedure
    def wait(self, job_id: int, *states: str, timeout_s: float | None = None, every_s: float = 1.0) -> Steps[JobDetail]:
        """The job once it is over, or in one of the states. Raises JobUnfinished after ``timeout_s``."""
        begun = time.monotonic()
        while True:
            job = yield from get(f"jobs/{job_id}", JobDetail).steps()
            if job.state in states or job.state not in LIVE:
                return job
            waited = time.monotonic() - begun
            if timeout_s is not None and waited >= timeout_s:
                raise JobUnfinished(job_id, job.state, timeout_s)
            yield Pause(every_s if timeout_s is None else min(every_s, timeout_s - waited))


class CodeFolders(Resource[ExecutorT_co]):
    """Folders of code that come with jobs."""

    @procedure
    def upload(self, folder: str | Path, *, told: Callable[[int, int], None] | None = None) -> Steps[Code]:
        """Packs a folder and uploads it, unless the server has it. ``told`` is called with the bytes sent and their
        total. Raises Misused for what cannot be packed, FolderTooLarge."""
        limits = yield from get("code/limits", CodeLimits).steps()
        archive: Archive = yield LocalWork(lambda: pack(folder, limits))
        with archive:
            try:
                return (yield from get(f"code/{archive.id}", Code).steps())
            except NotFound:
                pass
            body = FileBody(archive.file, archive.size, lambda sent: told(sent, archive.size) if told else None)
            headers = {"Content-Type": "application/gzip", "Content-Length": str(archive.size)}
            upload = Call("POST", "code", reading(Code), content=body, headers=headers, repeatable=True)
            return (yield from upload.steps())

    @endpoint
    def get(self, code: str) -> Call[Code]:
        """One folder by its id. Raises NotFound where there is none that you may use."""
        return get(f"code/{quote(code, safe=':')}", Code)

    @rows
    def list(self) -> Listing[Code]:
        """Your uploads that are still there, newest first."""
        return Listing("code", Code, LONG)

    @endpoint
    def forget(self, code: str) -> Call[None]:
        """Takes your upload back; jobs that name it keep it."""
        return Call("DELETE", f"code/{quote(code, safe=':')}", nothing)
