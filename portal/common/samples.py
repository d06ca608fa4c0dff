"""Live samples in Redis: a node's newest reading for pages, and its task attempts' readings of the last minutes, from
which usage records are made. If Redis is lost, so are these minutes."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from redis import Redis, RedisError, ResponseError

from nodes.protocol.messages import ContainerReport, GpuSample, Sample, Steps, encode
from nodes.protocol.names import samples_key
from nodes.protocol.states import ContainerState
from nodes.protocol.steps import HIGHEST_STEP
from portal.common.told import GPUS, LONGEST_LOG, number_believed, percent_believed, perhaps_believed
from portal.common.wake import redis_once

log = logging.getLogger(__name__)

KEPT_S = 60
MINUTES_KEPT = 20
"""How long readings of task attempts wait to be recorded."""
MOST_ENTRIES = 12 * MINUTES_KEPT
LAST_MS = 1 << 62
LONGEST_STEP_MS = 1e10
TASKS, PROCESSES, NAME = 1024, 64, 200
"""Limits per node, per GPU, and on a name's characters: one node's report ends up on pages and in records of
everybody's jobs."""


class GpuReading(NamedTuple):
    """One GPU of a task attempt: memory in MB, power in watts, temperature in degrees Celsius, the others in percent;
    None where unknown. ``own``: the part of its time that processes of the attempt had."""

    uuid: str
    utilisation: int | None
    memory_mb: int | None
    power_w: int | None
    temperature_c: int | None
    sm_active: int | None = None
    sm_occupancy: int | None = None
    tensor_active: int | None = None
    dram_active: int | None = None
    own: int | None = None


class StepReading(NamedTuple):
    """How far a training is: the step, when it was told (ms since 1970), how long one takes in ms, and a ``StepFault``
    where it is told wrongly."""

    step: int | None
    at_ms: int | None
    step_ms: float | None
    fault: str


class TaskReading(NamedTuple):
    """Usage of a task attempt: CPU in thousandths of a core, memory in MB, its GPUs, the steps it tells, and the
    bytes of its log."""

    attempt: UUID
    cpu_milli: int | None
    memory_mb: int | None
    gpus: list[GpuReading]
    steps: StepReading | None = None
    log_end: int = 0


class Reading(NamedTuple):
    """A node's task attempts at one time, in ms since 1970."""

    at_ms: int
    tasks: list[TaskReading]


_decode = msgspec.json.Decoder(list[TaskReading]).decode


def sample_keep(
    *, node: str, sample: Sample, containers: Sequence[ContainerReport], now_ms: int, ahead_ms: int = 0
) -> None:
    """Stores a node's newest readings for a minute, and those of its containers until they are recorded; does nothing
    while Redis is down. ``now_ms``: the portal's time; ``ahead_ms``: how far the node's clock is known to be ahead."""
    sample, containers = sample_believed(sample), containers[:TASKS]
    pipe = redis_once().pipeline(transaction=False)
    pipe.set(samples_key(node), encode(sample), ex=KEPT_S)
    if tasks := _tasks(sample, containers, ahead_ms):
        # The entry's id is its time, so Redis refuses a reading that two reports carried. It is capped at now: after a
        # jump of the node's clock, Redis would refuse all entries until the portal's time has caught up.
        entry: dict[Any, Any] = {"tasks": msgspec.json.encode(tasks)}
        pipe.xadd(_stream(node), entry, id=f"{max(1, min(sample.at_ms - ahead_ms, now_ms))}-0", maxlen=MOST_ENTRIES)
    try:
        for answer in pipe.execute(raise_on_error=False):
            if isinstance(answer, Exception) and not _was_there(answer):
                raise answer
    except RedisError as error:
        log.warning("sample of %s not kept: %s", node, error)


def sample_believed(told: Sample) -> Sample:
    """The sample with numbers clamped to what columns and charts take: a node may send any."""
    return replace(
        told,
        at_ms=min(max(told.at_ms, -LAST_MS), LAST_MS),
        gpus=tuple(map(_gpu_believed, told.gpus[:GPUS])),
        load_milli=number_believed(told.load_milli),
        memory_used_mb=number_believed(told.memory_used_mb),
        cpu_milli=_of_tasks(told.cpu_milli),
        memory_mb=_of_tasks(told.memory_mb),
    )


def _of_tasks(told: Mapping[str, int]) -> dict[str, int]:
    return {attempt[:NAME]: number_believed(value) for attempt, value in islice(told.items(), TASKS)}


def _gpu_believed(told: GpuSample) -> GpuSample:
    return replace(
        told,
        uuid=told.uuid[:NAME],
        throttle=tuple(one[:NAME] for one in told.throttle[:PROCESSES]),
        utilisation=percent_believed(told.utilisation),
        sm_active=percent_believed(told.sm_active),
        sm_occupancy=percent_believed(told.sm_occupancy),
        tensor_active=percent_believed(told.tensor_active),
        dram_active=percent_believed(told.dram_active),
        memory_used_mb=perhaps_believed(told.memory_used_mb),
        temperature_c=perhaps_believed(told.temperature_c),
        power_w=perhaps_believed(told.power_w),
        sm_clock_mhz=perhaps_believed(told.sm_clock_mhz),
        ecc_uncorrected=perhaps_believed(told.ecc_uncorrected),
        processes=tuple(
            replace(
                one, pid=number_believed(one.pid), memory_mb=number_believed(one.memory_mb),
                attempt=one.attempt and one.attempt[:NAME], utilisation=percent_believed(one.utilisation),
            )
            for one in told.processes[:PROCESSES]
        ),
    )  # fmt: skip


def _tasks(sample: Sample, containers: Iterable[ContainerReport], ahead_ms: int) -> list[TaskReading]:
    read = {one.uuid: one for one in sample.gpus}
    return [
        TaskReading(
            key,
            sample.cpu_milli.get(one.attempt),
            sample.memory_mb.get(one.attempt),
            [_gpu_reading(gpu, one.attempt) for uuid in one.gpus[:GPUS] if (gpu := read.get(uuid))],
            _steps(one.steps, ahead_ms),
            min(max(one.log_end, 0), LONGEST_LOG),
        )
        for one in containers
        if one.state is not ContainerState.TERMINATED and (key := _key(one.attempt))
    ]


def _gpu_reading(gpu: GpuSample, attempt: str) -> GpuReading:
    parts = [one.utilisation for one in gpu.processes if one.attempt == attempt and one.utilisation is not None]
    return GpuReading(
        gpu.uuid, gpu.utilisation, gpu.memory_used_mb, gpu.power_w, gpu.temperature_c,
        gpu.sm_active, gpu.sm_occupancy, gpu.tensor_active, gpu.dram_active, min(sum(parts), 100) if parts else None,
    )  # fmt: skip


def _steps(told: Steps | None, ahead_ms: int) -> StepReading | None:
    if told is None:
        return None
    step_ms = told.step_ms if told.step_ms is not None and 0 <= told.step_ms <= LONGEST_STEP_MS else None
    at_ms = None if told.at_ms is None else min(max(told.at_ms - ahead_ms, 0), LAST_MS)
    step = None if told.step is None else min(max(told.step, 0), HIGHEST_STEP)
    return StepReading(step, at_ms, step_ms, told.fault or "")


def _key(attempt: str) -> UUID | None:
    """The attempt's id; None for a foreign container, whatever its node calls it."""
    try:
        return UUID(attempt)
    except ValueError:
        return None


def _was_there(error: Exception) -> bool:
    return isinstance(error, ResponseError) and "equal or smaller" in str(error)


def readings(*, redis: Redis, nodes: Sequence[str], first_ms: int, end_ms: int) -> Iterator[tuple[str, list[Reading]]]:
    """Stored readings of these nodes from ``first_ms`` up to before ``end_ms``, in order of time. Raises
    redis.RedisError."""
    pipe = redis.pipeline(transaction=False)
    for node in nodes:
        pipe.xrange(_stream(node), min=first_ms, max=end_ms - 1)
    for node, entries in zip(nodes, pipe.execute(), strict=True):
        yield node, [one for entry in entries if (one := _reading(*entry))]


def readings_expire(*, redis: Redis, nodes: Iterable[str]) -> None:
    """Renews the expiry, by some minutes, for nodes that reported of late. Raises redis.RedisError."""
    pipe = redis.pipeline(transaction=False)
    for node in nodes:
        pipe.expire(_stream(node), MINUTES_KEPT * 60)
    pipe.execute()


def _reading(entry: bytes, fields: dict[bytes, bytes]) -> Reading | None:
    try:
        return Reading(int(entry.partition(b"-")[0]), _decode(fields[b"tasks"]))
    except (KeyError, msgspec.MsgspecError):
        return None  # written by an earlier version


def _stream(node: str) -> str:
    return f"berth:portal:samples:{node}"
