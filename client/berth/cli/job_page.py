"""One job as `berth show` and `berth why` print it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from berth.cli.follow import ending_line, preparing, waiting_line
from berth.cli.screen import cores, memory, span, table, when
from berth.model.jobs import Advice, Event, JobDetail, Metrics, Parking, Score, Series, Start, Task

MOST_EVENTS = 10
USED = ("utilisation", "sm_active", "tensor_active", "dram_active")


def job_page(
    job: JobDetail,
    tasks: Sequence[Task],
    events: Sequence[Event],
    advice: Sequence[Advice],
    usage: Sequence[Metrics],
    *,
    more: bool,
) -> Iterator[object]:
    """Tables and lines; ``more``: the job has tasks that are not in the list; ``usage``: of some of its tasks."""
    yield table(("", "*"), _facts(job))
    yield ""
    yield table(("ROLE", ">TASKS", ">GPU", ">CPU", ">MEMORY", "SKU", "*STATES"), _roles(job))
    if tasks:
        yield ""
        yield table(("TASK", "STATE", "NODE", "GPUS", ">EXIT", "*"), (_task(task) for task in tasks))
    if more:
        yield f"… of {job.task_count} tasks"
    used = [row for one in usage for row in _used(one)]
    if used:
        yield ""
        yield table(("TASK", ">GPU", ">USED", ">SM", ">TENSOR", ">BANDWIDTH", ">PEAK MEMORY"), used)
    if advice:
        yield ""
        yield table(("*ADVICE",), ((one.message,) for one in advice))
    if events:
        yield ""
        yield table(("WHEN", "*EVENT"), ((event.at, event.message) for event in events[-MOST_EVENTS:]))


def _facts(job: JobDetail) -> Iterator[tuple[str, object]]:
    yield "job", f"{job.label}  (id {job.id})"
    yield "state", job.state
    if job.waiting is not None:
        yield "why", waiting_line(job)
    if is_off_gpu(job):
        yield "parking", " ".join(parking_lines(job))
    if job.over:
        yield "end", ending_line(job)
        yield "exit code", job.exit_code
    yield "virtual cluster", job.vc
    yield "size", f"{job.task_count} tasks, {job.gpu_count} GPUs{', start together' if job.gang else ''}"
    yield "priority", job.priority
    yield "submitted", job.submitted_at
    yield "started", job.started_at
    if job.attempt is not None:
        yield (
            "attempt",
            f"{job.attempt.number} ({job.attempt.state}), {job.retries} restart{'' if job.retries == 1 else 's'}",
        )


def _roles(job: JobDetail) -> Iterator[tuple[object, ...]]:
    for role in job.roles:
        states = ", ".join(f"{count} {state}" for state, count in role.tasks.items())
        tasks = role.instances if role.least is None else f"{role.least} to {role.instances}"
        yield role.name, tasks, role.gpus, cores(role.cpu_milli), memory(role.memory_mb), role.sku, states


def _used(task: Metrics) -> Iterator[tuple[object, ...]]:
    """Of each of its GPUs the means over the run, and the memory at its peak; nothing before the first reading."""
    for gpu in sorted({one.gpu.index for one in task.series if one.gpu is not None}):
        of_it = {one.metric: one for one in task.series if one.gpu is not None and one.gpu.index == gpu}
        filled = [most for most in of_it["gpu_memory"].max if most is not None]
        shares = [_mean(of_it.get(f"gpu_{name}"), task.seconds) for name in USED]
        if filled or any(shares):
            yield f"{task.role}/{task.index}", gpu, *shares, memory(int(max(filled))) if filled else "-"


def _mean(series: Series | None, seconds: Sequence[int]) -> str:
    told = zip(series.mean, seconds, strict=True) if series else ()
    known = [(value, length) for value, length in told if value is not None]
    return (
        f"{sum(value * length for value, length in known) / sum(length for _, length in known):.0f} %" if known else "-"
    )


def _task(task: Task) -> tuple[object, ...]:
    if not task.attempts:
        return task.name, task.state, "", "", "", ""
    newest = task.attempts[0]
    gpus = ",".join(str(gpu.index) for gpu in newest.gpus)
    return task.name, task.state, newest.node, gpus, newest.exit_code, _task_message(task)


def _task_message(task: Task) -> str:
    """What its node is doing, or why it ended, and when it is retried."""
    newest = task.attempts[0]
    parts = [preparing(task) or newest.stop_message or newest.exit_message]
    if task.state == "waiting" and task.not_before is not None:
        parts.append(f"tried again from {when(task.not_before)} on")
    return "; ".join(filter(None, parts))


def why_lines(job: JobDetail) -> Iterator[str]:
    """Why it waits with all that is known of it, or why it does not."""
    if is_off_gpu(job):
        yield from parking_lines(job)
        return
    if job.waiting is None:
        yield ending_line(job) if job.over else f"job {job.label} does not wait: it is {job.state}"
        return
    waiting = job.waiting
    yield waiting.message or "The scheduler has not looked at it yet."
    if waiting.paused:
        yield f"It is paused: berth resume {job.id}"
    if waiting.place is not None:
        yield f"Place {waiting.place} in the queue of {job.vc}, counted among the {_rivals(job)}."
    if waiting.not_before is not None:
        yield f"It is tried again from {when(waiting.not_before)} on."
    yield from start_lines(waiting.start, waiting.score, waiting.no_start)


def is_off_gpu(job: JobDetail) -> bool:
    """Whether it is parked, or on its way there or back."""
    return job.parking is not None and job.parking.state != "held"


_PARKING = {"parking": "being parked", "wanted": "waiting for its GPU", "resuming": "going back to its GPU"}


def parking_words(parking: Parking) -> str:
    """Its state in words."""
    return _PARKING.get(parking.state, parking.state)


def parking_lines(job: JobDetail) -> Iterator[str]:
    """Where a job is that is off its GPU, and how it goes on."""
    parking = job.parking
    if parking is None:
        return
    why = f": {parking.cause}" if parking.cause else ""
    yield f"It is {parking_words(parking)} since {when(parking.since)} on {parking.node}{why}."
    if parking.lent_to:
        yield f"Its GPU is lent to {parking.lent_to}."
    if parking.fault:
        yield f"What was in the way: {parking.fault}."
    if parking.state in ("parking", "parked"):
        yield f"To have it go on: berth resume {job.id}"


def _rivals(job: JobDetail) -> str:
    """The jobs among which its place is counted: others do not compete with it."""
    kind = "opportunistic jobs" if job.priority < 0 else "jobs"
    return f"{kind} that want the same GPUs" if job.gpu_count else f"{kind} without GPUs"


def start_lines(start: Start | None, score: Score | None, no_start: str) -> Iterator[str]:
    """The estimate of a start, with its record, or why there is none; nothing where the reason itself says when."""
    if start is None:
        if no_start:
            yield no_start
        return
    yield f"It starts about {when(start.p50)}, by {when(start.p90)} nine times in ten."
    if score is not None and score.count:
        yield (f"Of {score.count} such estimates {score.hits} held; half were within {span(score.off_s)} of the start.")
