"""What a simulation is judged by. Times come in milliseconds and go out in seconds, GPU time in hours."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduling.model.cluster import Cluster
from scheduling.simulator.clusters import leaves_in
from scheduling.simulator.loop import Outcome

LATER_START_MS = 1_000
"""First starts count as later than alone when they are more than this."""

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Spread:
    """Seconds over the jobs that ended: mean, and percentiles by nearest rank; None where none ended."""

    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class Later:
    """Jobs that end later than each virtual cluster alone, and that first start more than a second later.

    Only jobs that end in both simulations are compared.
    """

    completions: int
    first_starts: int


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of some jobs.

    unfinished: jobs that never ended. makespan_s: from the first submission to the last end. gpu_utilisation:
    GPU time held from the first to the last submission by GPUs there are; of a virtual cluster by those it owns,
    which may be more than 1; None without GPUs or time. preemptions: of jobs, each time. parked, resumed, resizes: how
    often jobs were parked, went on from there, and grew or shrank. first_output_s: from submission until a job first
    computed. returns_s: from when the person of an idle session was back until its GPU was.
    """

    count: int
    unfinished: int
    queue_s: Spread
    completion_s: Spread
    makespan_s: float | None
    gpu_utilisation: float | None
    gpu_hours: float
    gpu_hours_lost: float
    preemptions: int
    preempted_jobs: int
    parked: int
    resumed: int
    resizes: int
    gpu_hours_idle: float
    first_output_s: Spread
    returns_s: Spread
    later_than_private: Later | None


@dataclass(frozen=True, slots=True)
class Summary:
    """Over all jobs, and over those of each virtual cluster."""

    overall: Figures
    per_vc: dict[str, Figures]


@dataclass(frozen=True, slots=True)
class _Window:
    """From the first to the last submission of the whole trace."""

    begin_ms: int
    end_ms: int

    def held(self, outcome: Outcome) -> int:
        """GPU time (ms) that the job held in it; what never ended holds to its end."""
        held = 0
        for attempt in outcome.attempts:
            end = self.end_ms if attempt.end_ms is None else min(attempt.end_ms, self.end_ms)
            held += max(0, end - attempt.start_ms) * attempt.gpus
        return held


def summary(cluster: Cluster, outcomes: Sequence[Outcome], private: Sequence[Outcome] | None = None) -> Summary:
    """The figures of a simulation on this cluster; `private` are the same jobs' with each virtual cluster alone."""
    window = _Window(
        min((one.job.submit_ms for one in outcomes), default=0), max((one.job.submit_ms for one in outcomes), default=0)
    )
    alone = None if private is None else {one.job.id: one for one in private}
    by_vc: dict[str, list[Outcome]] = {vc.id: [] for vc in cluster.virtual_clusters}
    for one in outcomes:
        by_vc[one.job.vc].append(one)
    owned = {
        vc.id: sum(line.count * leaves_in(cluster, line.cell_type) for line in vc.quota)
        for vc in cluster.virtual_clusters
    }
    return Summary(
        figures(outcomes, len(cluster.leaf_types), window, alone),
        {vc: figures(jobs, owned[vc], window, alone) for vc, jobs in sorted(by_vc.items())},
    )


def figures(outcomes: Sequence[Outcome], gpus: int, window: _Window, alone: dict[str, Outcome] | None) -> Figures:
    """The figures of these jobs, beside so many GPUs."""
    held = sum(window.held(one) for one in outcomes)
    there = gpus * (window.end_ms - window.begin_ms)
    ends = [one.finish_ms for one in outcomes if one.finish_ms is not None]
    begins = [one.job.submit_ms for one in outcomes]
    return Figures(
        count=len(outcomes),
        unfinished=len(outcomes) - len(ends),
        queue_s=spread(one.queue_ms for one in outcomes),
        completion_s=spread(_completion(one) for one in outcomes),
        makespan_s=(max(ends) - min(begins)) / 1000 if ends else None,
        gpu_utilisation=held / there if there else None,
        gpu_hours=sum(map(_gpu_ms, outcomes)) / HOUR_MS,
        gpu_hours_lost=sum(one.job.gpus * one.lost_ms for one in outcomes) / HOUR_MS,
        preemptions=sum(one.preemptions for one in outcomes),
        preempted_jobs=sum(one.preemptions > 0 for one in outcomes),
        parked=sum(one.parked for one in outcomes),
        resumed=sum(one.resumed for one in outcomes),
        resizes=sum(one.resizes for one in outcomes),
        gpu_hours_idle=sum(one.idle_ms for one in outcomes) / HOUR_MS,
        first_output_s=spread(map(_first_output, outcomes)),
        returns_s=spread(back for one in outcomes for back in one.returns_ms),
        later_than_private=None if alone is None else later(outcomes, alone),
    )


def _completion(outcome: Outcome) -> int | None:
    return None if outcome.finish_ms is None else outcome.finish_ms - outcome.job.submit_ms


def _first_output(outcome: Outcome) -> int | None:
    first = outcome.first_start_ms if outcome.first_output_ms is None else outcome.first_output_ms
    return None if first is None else first - outcome.job.submit_ms


def _gpu_ms(outcome: Outcome) -> int:
    return sum((one.end_ms - one.start_ms) * one.gpus for one in outcome.attempts if one.end_ms is not None)


def spread(times_ms: Iterable[int | None]) -> Spread:
    """Mean and percentiles of those that are known."""
    known = sorted(time for time in times_ms if time is not None)
    if not known:
        return Spread(None, None, None, None)
    return Spread(sum(known) / len(known) / 1000, *(percentile(known, percent) / 1000 for percent in (50, 95, 99)))


def percentile(ordered: Sequence[int], percent: int) -> int:
    """The smallest of the ordered values that at least so many percent of them do not exceed (nearest rank)."""
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]


def later(outcomes: Iterable[Outcome], alone: dict[str, Outcome]) -> Later:
    """How many of the jobs were worse off than alone."""
    completions = starts = 0
    for one in outcomes:
        other = alone.get(one.job.id)
        if other is None or one.finish_ms is None or other.finish_ms is None:
            continue
        completions += one.finish_ms > other.finish_ms
        first, before = one.first_start_ms, other.first_start_ms
        starts += first is not None and before is not None and first > before + LATER_START_MS
    return Later(completions, starts)
