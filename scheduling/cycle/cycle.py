"""One pass over all jobs: the order, and a decision for whoever's turn it is."""

from collections.abc import Mapping

from scheduling.cycle.cycle_state import Cycle, CycleState, merged_by_job
from scheduling.cycle.diagnose import Diagnosis
from scheduling.cycle.guaranteed import GuaranteedPass
from scheduling.cycle.loans import LoanPass
from scheduling.cycle.nonpreemptible import reseat
from scheduling.model.plan import Demotion, Plan


class Overtaken(Exception):
    """What was remembered of earlier passes no longer holds: the pass begins anew without it."""


def make_plan(state: CycleState, now: int, *, told: bool, fallen: Mapping[str, Demotion]) -> Plan:
    """The plan of one moment (ms). The state is changed on the way and is the caller's to take back.

    The reasons of waiting jobs are worked out only when `told`. `fallen` jobs have lost their quota. Raises Overtaken.
    """
    trial = Cycle(state, now)
    quotas, borrowing = GuaranteedPass(trial), LoanPass(trial)
    # 1. Jobs that have taken cells count as if they ran; they start in their turn when the last victim is gone.
    quotas.claimants.enter()
    # 2. Who may not be preempted and has lost his cells with a smaller quota gets others, before all others.
    every = reseat(trial, fallen)
    # 3. Guaranteed jobs inside their quota, each virtual cluster in its order: who runs on loan moves in where he
    #    is, who waits starts or preempts. Who cannot holds up the later ones of his chains, except those that
    #    cannot delay him.
    quotas.turns(told)
    if quotas.was_wrong():
        raise Overtaken
    # 4. Idle cells on loan: the virtual cluster with the smallest weighted share on loan is next.
    borrowing.turns(told)
    borrowing.modest()
    # 5. The reasons of those that wait, with the numbers that hold when all of it is carried out.
    waits = Diagnosis(trial, quotas.lines).waits() if told else ()
    return Plan(
        now,
        starts=tuple(trial.starts),
        preemptions=merged_by_job(trial.preemptions),
        promotions=tuple(trial.promotions),
        demotions=tuple(every[name] for name in sorted(every)),
        waits=waits,
        releases=tuple(sorted(set(trial.releases))),
        reservations=tuple(dict.fromkeys(trial.reserved)),
    )
