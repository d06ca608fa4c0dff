"""Small clusters and traces for the simulator's tests."""

from scheduling import Cluster
from scheduling.simulator.clusters import of_equal_nodes
from scheduling.simulator.loop import Outcome
from scheduling.simulator.policies import Result, Settings, Sharing, simulate
from scheduling.simulator.trace import TraceJob
from scheduling.simulator.trace import read as read_trace

HEADER = "job_id,submit_time_s,vc,user,gpus,nodes,gpus_per_node,cpu,mem_gb,duration_s,status,priority"


def equal_nodes(nodes: int, gpus: int = 4, **owned: int) -> Cluster:
    """A cluster of equal nodes; `vision=2` gives the virtual cluster vision two of them."""
    return of_equal_nodes({"nodes": nodes, "gpus_per_node": gpus, "vc_nodes": owned})


def row(
    name: str = "j",
    at: float | str = 0,
    lasts: float | str = 100,
    gpus: float | str = 1,
    *,
    vc: str = "vision",
    nodes: int | str = "",
    each: int | str = "",
    cpu: float | str = "",
    memory: float | str = "",
    priority: int | str = "",
) -> str:
    """One line of a trace; times in seconds."""
    return f"{name},{at},{vc},,{gpus},{nodes},{each},{cpu},{memory},{lasts},,{priority}"


def trace(cluster: Cluster, *rows: str) -> tuple[TraceJob, ...]:
    """These rows under the header."""
    return read_trace([HEADER, *rows], cluster)


def run(cluster: Cluster, sharing: Sharing, *rows: str, work_kept: bool = True, grace_ms: int = 0) -> Result:
    """The rows under this way of sharing, quotas counted in GPUs."""
    settings = Settings(sharing, work_kept=work_kept, grace_ms=grace_ms, quota_in_gpus=True)
    return simulate(cluster, trace(cluster, *rows), settings)


def times(result: Result) -> dict[str, list[tuple[float, float | None]]]:
    """Of each job the runs, from when to when in seconds."""
    return {
        outcome.job.id: [_run(outcome, number) for number in range(len(outcome.attempts))]
        for outcome in result.outcomes
    }


def _run(outcome: Outcome, number: int) -> tuple[float, float | None]:
    attempt = outcome.attempts[number]
    return attempt.start_ms / 1000, None if attempt.end_ms is None else attempt.end_ms / 1000


def of(result: Result, name: str) -> Outcome:
    """What became of one job."""
    return next(outcome for outcome in result.outcomes if outcome.job.id == name)
