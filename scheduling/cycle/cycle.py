"""One scheduling cycle over all jobs, step by step."""

from collections.abc import Mapping

from scheduling.cycle.cycle_state import Cycle, CycleState, merged_by_job
from scheduling.cycle.diagnose import Diagnosis
from scheduling.cycle.growth import grow
from scheduling.cycle.guaranteed import GuaranteedJobs
from scheduling.cycle.loans import Loaned
from scheduling.cycle.nonpreemptible import rebind
from scheduling.model.plan import Demotion, Plan


class Overtaken(Exception):
    """What was remembered of earlier cycles no longer holds: plan once more without it."""


def make_plan(state: CycleState, now: int, *, with_reasons: bool, without_quota: Mapping[str, Demotion]) -> Plan:
    """The plan of one moment (ms). It changes the state; the caller rolls that back.

    `with_reasons`: also why jobs wait. `without_quota`: running jobs whose virtual cells a quota cut removed. Raises
    Overtaken.
    """
    cycle = Cycle(state, now)
    guaranteed, loaned = GuaranteedJobs(cycle), Loaned(cycle)
    # 1. Jobs with claims count as if they ran; they start in their turn, once the last victim is gone.
    guaranteed.preemptors.enter()
    # 2. Non-preemptible jobs whose virtual cells a quota cut removed get others, before everybody else.
    every = rebind(cycle, without_quota)
    # 3. Guaranteed jobs inside their quota, each virtual cluster in its own order: a job on loan is promoted where it
    #    runs, a waiting one starts or preempts. One that cannot blocks the later jobs of its chains, except those
    #    that cannot delay it.
    guaranteed.turns(with_reasons)
    if guaranteed.was_wrong():
        raise Overtaken
    # 4. Loans of idle cells: the virtual cluster with the smallest weighted share on loan is next.
    loaned.turns(with_reasons)
    loaned.modest()
    # 5. Elastic jobs grow into what is idle now.
    grow(cycle)
    # 6. Reasons of those that wait, with the numbers that hold once all of it is carried out.
    waits = Diagnosis(cycle, guaranteed.progress_of).waits() if with_reasons else ()
    return Plan(
        now,
        starts=tuple(cycle.starts),
        preemptions=merged_by_job(cycle.preemptions),
        promotions=tuple(cycle.promotions),
        demotions=tuple(every[name] for name in sorted(every)),
        waits=waits,
        releases=tuple(sorted(set(cycle.releases))),
        reservations=tuple(dict.fromkeys(cycle.reservations)),
    )
