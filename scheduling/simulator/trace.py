"""A trace of jobs as comma-separated lines: what each row must say, and every row that does not say it.

The columns are those of Microsoft's Philly trace as published with later papers, one job a row; an empty field
is unknown. Lines go in and jobs come out; opening the file is the caller's part.
"""

import csv
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scheduling.diagnosis.feasible_at_submit import HIGHEST_PRIORITY
from scheduling.model.cluster import Cluster
from scheduling.model.job import OPPORTUNISTIC, Role, TaskRef, all_tasks

COLUMNS = (
    "job_id",
    "submit_time_s",
    "vc",
    "user",
    "gpus",
    "nodes",
    "gpus_per_node",
    "cpu",
    "mem_gb",
    "duration_s",
    "status",
    "priority",
)
DEFAULT_PRIORITY = 10


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One row: when the job came, for how long it runs (ms both), what it asks for, and its line in the file."""

    id: str
    vc: str
    user: str
    priority: int
    submit_ms: int
    duration_ms: int
    roles: tuple[Role, ...]
    wanted: tuple[TaskRef, ...]
    gpus: int
    line: int

    @property
    def opportunistic(self) -> bool:
        """Whether the trace itself wants the job outside every quota."""
        return self.priority <= OPPORTUNISTIC


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one field of one line; an empty `column` is the line as a whole."""

    line: int
    column: str
    sentence: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.column + ' ' if self.column else ''}{self.sentence}"


class TraceError(ValueError):
    """The trace cannot be simulated; `faults` are all that were found, in the order of the lines."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(map(str, self.faults)))


def read(lines: Iterable[str], cluster: Cluster) -> tuple[TraceJob, ...]:
    """The jobs in the order of their submission (equal times: of their lines).

    The cluster gives the names of its virtual clusters, and the size of a node where a row says only how many
    GPUs. Raises TraceError with every fault of every line.
    """
    reader = csv.reader(lines)
    columns = _header(next(reader, []))
    rows = _Rows(columns, cluster)
    try:
        jobs = [job for fields in reader if any(fields) for job in rows.read(fields, reader.line_num)]
    except csv.Error as error:
        raise TraceError([*rows.faults, Fault(reader.line_num, "", f"is no row of a CSV file: {error}")]) from None
    if not jobs and not rows.faults:
        raise TraceError([Fault(1, "", "is followed by no job")])
    if rows.faults:
        raise TraceError(rows.faults)
    return tuple(sorted(jobs, key=lambda job: (job.submit_ms, job.line)))


def _header(names: list[str]) -> dict[str, int]:
    """Where each column stands; columns that are not ours are passed over."""
    stripped = [name.strip() for name in names]
    faults = [Fault(1, column, "is a column that is missing") for column in COLUMNS if column not in stripped]
    faults += [Fault(1, column, "stands there twice") for column in COLUMNS if stripped.count(column) > 1]
    if faults:
        raise TraceError(faults)
    return {column: stripped.index(column) for column in COLUMNS}


class _Wrong(ValueError):
    """One field cannot be used."""

    def __init__(self, column: str, sentence: str) -> None:
        super().__init__(sentence)
        self.column = column
        self.sentence = sentence


class _Rows:
    """Reads row by row and keeps what is wrong; equal requests share their roles and tasks."""

    def __init__(self, columns: dict[str, int], cluster: Cluster) -> None:
        self.faults: list[Fault] = []
        self._columns = columns
        self._width = max(columns.values()) + 1
        self._vcs = {vc.id for vc in cluster.virtual_clusters}
        self._most_nodes = len(cluster.nodes)
        self._most_gpus = len(cluster.leaf_types)
        self._node_gpus = max((len(node.leaves) for node in cluster.nodes), default=0)
        self._seen: dict[str, int] = {}
        self._known: dict[object, tuple[tuple[Role, ...], tuple[TaskRef, ...]]] = {}

    def read(self, fields: list[str], line: int) -> Iterator[TraceJob]:
        """The row's job, or none and a fault noted."""
        if len(fields) < self._width:
            self.faults.append(Fault(line, "", f"has {len(fields)} fields where the columns need {self._width}"))
            return
        row = {column: fields[place].strip() for column, place in self._columns.items()}
        try:
            yield self._job(row, line)
        except _Wrong as wrong:
            self.faults.append(Fault(line, wrong.column, wrong.sentence))

    def _job(self, row: dict[str, str], line: int) -> TraceJob:
        name = row["job_id"]
        if not name:
            raise _Wrong("job_id", "is empty")
        if name in self._seen:
            raise _Wrong("job_id", f"{name} stands on line {self._seen[name]} already")
        self._seen[name] = line
        if row["vc"] not in self._vcs:
            raise _Wrong("vc", f"{row['vc'] or '(empty)'} is none of the cluster's: {', '.join(sorted(self._vcs))}")
        roles, wanted, gpus = self._request(row)
        return TraceJob(
            name,
            row["vc"],
            row["user"],
            _priority(row["priority"]),
            _milliseconds("submit_time_s", row),
            _milliseconds("duration_s", row),
            roles,
            wanted,
            gpus,
            line,
        )

    def _request(self, row: dict[str, str]) -> tuple[tuple[Role, ...], tuple[TaskRef, ...], int]:
        gpus, parts = self._shape(*(_count(column, row) for column in ("gpus", "nodes", "gpus_per_node")))
        tasks = sum(count for count, _ in parts)
        cpu = math.ceil((_number("cpu", row) or 0) * 1000 / tasks)
        memory = math.ceil((_number("mem_gb", row) or 0) * 1024 / tasks)
        if not gpus + cpu + memory:
            raise _Wrong("gpus", "is 0 and no CPU or memory is asked for either")
        key = (parts, cpu, memory)
        if key not in self._known:
            roles = tuple(
                Role("worker" if not number else "rest", count, each, cpu, memory)
                for number, (count, each) in enumerate(parts)
            )
            self._known[key] = roles, all_tasks(roles)
        return *self._known[key], gpus

    def _shape(self, gpus: int | None, nodes: int | None, each: int | None) -> tuple[int, tuple[tuple[int, int], ...]]:
        """All GPUs, and (number of equal tasks, GPUs of each): at most two sorts, the larger first."""
        if gpus is None:
            if nodes is None or each is None:
                raise _Wrong("gpus", "is empty and nodes x gpus_per_node does not tell it")
            gpus = nodes * each
        if nodes is not None and each is not None and nodes * each != gpus:
            raise _Wrong("gpus", f"{gpus} is not nodes x gpus_per_node, {nodes} x {each}")
        if gpus > self._most_gpus:
            raise _Wrong("gpus", f"{gpus} is more than the {self._most_gpus} of the cluster")
        if nodes is not None and not 1 <= nodes <= self._most_nodes:
            raise _Wrong("nodes", f"{nodes} is not from 1 to the {self._most_nodes} of the cluster")
        if nodes is not None:
            return gpus, _evenly(gpus, nodes)
        return gpus, _filled(gpus, each or self._node_gpus)


def _evenly(gpus: int, tasks: int) -> tuple[tuple[int, int], ...]:
    each, more = divmod(gpus, tasks)
    parts = ((more, each + 1), (tasks - more, each))
    return tuple(part for part in parts if part[0])


def _filled(gpus: int, each: int) -> tuple[tuple[int, int], ...]:
    """Tasks of `each` GPUs and one with the rest; one task when there are none."""
    if not gpus or gpus <= each:
        return ((1, gpus),)
    parts = ((gpus // each, each), (1, gpus % each))
    return tuple(part for part in parts if part[1])


def _number(column: str, row: dict[str, str]) -> float | None:
    """The number, not negative; None where the field is empty."""
    text = row[column]
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise _Wrong(column, f"{text!r} is no number") from None
    if not math.isfinite(value):
        raise _Wrong(column, f"{text} is no finite number")
    if value < 0:
        raise _Wrong(column, f"{text} is negative")
    return value


def _count(column: str, row: dict[str, str]) -> int | None:
    value = _number(column, row)
    if value is not None and value != int(value):
        raise _Wrong(column, f"{row[column]} is no whole number")
    return None if value is None else int(value)


def _milliseconds(column: str, row: dict[str, str]) -> int:
    value = _number(column, row)
    if value is None:
        raise _Wrong(column, "is empty")
    return round(value * 1000)


def _priority(text: str) -> int:
    if not text:
        return DEFAULT_PRIORITY
    try:
        value = float(text)
    except ValueError:
        raise _Wrong("priority", f"{text!r} is no number") from None
    if not OPPORTUNISTIC <= value <= HIGHEST_PRIORITY or value % 1:
        raise _Wrong("priority", f"{text} is no whole number from {OPPORTUNISTIC} to {HIGHEST_PRIORITY}")
    return int(value)
