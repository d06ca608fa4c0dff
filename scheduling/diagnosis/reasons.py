"""Why a job waits: one dominant reason, with the numbers it rests on and a sentence for people.

Each reason is true by a what-if: the obstacle it names blocks the job even where those after it are removed.
"""

from collections.abc import Collection, Sequence
from functools import lru_cache

from scheduling.cells.cell_index import CellIndex
from scheduling.model.job import Job
from scheduling.model.plan import Code, Reason


def ineligible(job: Job, layout: CellIndex) -> Reason | None:
    """Why the job is not in its queue's order at all: paused, waiting for others to end, or for what is gone."""
    if job.paused:
        return paused()
    if job.after:
        return dependency(job.after)
    if job.vc not in layout.virtual_clusters:
        return no_virtual_cluster(job.vc)
    if _has_no_node(job, layout):
        return no_node(job.only_nodes or ())
    return None


def is_ineligible(job: Job, layout: CellIndex) -> bool:
    """Whether a job of a virtual cluster of this layout has such a reason."""
    return job.paused or bool(job.after) or _has_no_node(job, layout)


def _has_no_node(job: Job, layout: CellIndex) -> bool:
    """Whether the job names nodes, none of which is part of the cluster (any more)."""
    names = job.only_nodes
    return bool(names) and names is not None and names.isdisjoint(layout.position)


def paused() -> Reason:
    """The job is held by its owner or an administrator."""
    return Reason(Code.PAUSED, {}, "the job is paused; once it is resumed it waits for its turn")


def parked() -> Reason:
    """The job is off its GPUs, which it has back when somebody wants it to go on."""
    return Reason(Code.PARKED, {}, "the job is parked: its GPUs are lent until it is resumed")


def dependency(open_jobs: tuple[str, ...]) -> Reason:
    """Jobs that must be over first are not."""
    first = open_jobs[0]
    more = f" and {len(open_jobs) - 1} more" if len(open_jobs) > 1 else ""
    verb = "have" if more else "has"
    sentence = f"it starts after job {first}{more} {verb} ended"
    return Reason(Code.DEPENDENCY, {"jobs": len(open_jobs), "first": first}, sentence)


def no_node(names: Collection[str]) -> Reason:
    """None of the nodes that the job may run on is part of the cluster (any more)."""
    where = ", ".join(sorted(names)[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    numbers: dict[str, int | str] = {"nodes": len(names), "where": where}
    sentence = f"none of the servers that it may run on is part of the cluster: {where}"
    return Reason(Code.NO_NODE, numbers, sentence)


def no_virtual_cluster(vc: str) -> Reason:
    """The job's virtual cluster is not part of the cluster (any more)."""
    return Reason(Code.QUOTA, {"vc": vc, "owned": 0}, f"there is no virtual cluster {vc}")


def no_gpus_owned(vc: str) -> Reason:
    """A job that takes any SKU of its virtual cluster, which owns none."""
    return Reason(Code.QUOTA, {"vc": vc, "owned": 0}, f"team {vc} owns no GPUs")


def no_pinned_cell(vc: str, name: str) -> Reason:
    """The job asks for a pinned cell that its virtual cluster does not have (any more)."""
    return Reason(Code.QUOTA, {"vc": vc, "owned": 0, "pinned": name}, f"team {vc} has no pinned cell {name}")


def quota(vc: str, cell_type: str, held: int, owned: int, needed: int) -> Reason:
    """The virtual cluster's free virtual cells are fewer than the job needs."""
    numbers: dict[str, int | str] = {"vc": vc, "sku": cell_type, "held": held, "owned": owned, "needed": needed}
    left = f"{owned - held} {verb_is(owned - held)}" if owned > held else "none is"
    sentence = f"team {vc} holds {held} of its {owned} {cell_type}, so {left} left; this job needs {needed}"
    return Reason(Code.QUOTA, numbers, sentence)


def beyond_quota(vc: str, cell_type: str, owned: int, whole: int, needed: int) -> Reason:
    """The virtual cluster's quota, were all of it free, would not hold the job: it owns too little, or too little of it
    lies together (at most `whole`)."""
    numbers: dict[str, int | str] = {"vc": vc, "sku": cell_type, "owned": owned, "needed": needed}
    if needed > owned:
        sentence = f"team {vc} owns {owned} {cell_type}; this job needs {needed}, so it waits for a larger quota"
        return Reason(Code.QUOTA, numbers, sentence)
    sentence = (
        f"at most {whole} of team {vc}'s {owned} {cell_type} lie together; the tasks of this job "
        f"({needed} {cell_type}) wait for a larger quota"
    )
    return Reason(Code.QUOTA, {**numbers, "whole": whole}, sentence)


def no_cell(vc: str, cell_type: str, free: int, largest: int, needed: int) -> Reason:
    """The virtual cluster has enough free leaves, but no free cells that hold the tasks."""
    numbers: dict[str, int | str] = {"vc": vc, "sku": cell_type, "free": free, "largest": largest, "needed": needed}
    sentence = (
        f"{free} of team {vc}'s {cell_type} {verb_is(free)} free, but at most {largest} of them lie together; "
        f"the tasks of this job ({needed} {cell_type}) do not fit into what is free"
    )
    return Reason(Code.QUOTA, numbers, sentence)


def owed_ahead(vc: str, cell_type: str, free: int, reserved: int, below: int, needed: int) -> Reason:
    """What the job could have of the quota is to go to jobs ahead that run on loan until they can move into it: too
    little is left for the job, or no room for it on the nodes. `below` of it lower priorities use, else it is free."""
    numbers: dict[str, int | str] = {"vc": vc, "sku": cell_type, "free": free, "owed": reserved, "needed": needed}
    left = "" if free - reserved < needed else "; on no node is there room for the rest"
    whose = "is for an earlier job that runs" if reserved == 1 else "are for earlier jobs that run"
    if below:
        sentence = (
            f"{reserved} of team {vc}'s {cell_type}, {below} of them used by lower priorities, {whose} on borrowed "
            f"GPUs and will move there; this job needs {needed}"
        )
        return Reason(Code.ORDER, {**numbers, "below": below}, sentence)
    sentence = (
        f"{free} of team {vc}'s {cell_type} {verb_is(free)} free, but {reserved} of them {whose} on borrowed GPUs and "
        f"will move there{left}; this job needs {needed}"
    )
    return Reason(Code.ORDER, numbers, sentence)


def user_limit(job: Job, kind: str, held: int, needed: int, cap: int) -> Reason:
    """The user's jobs hold as much of the quota as one user may."""
    numbers: dict[str, int | str] = {
        "user": job.user, "vc": job.vc, "sku": kind, "held": held, "needed": needed, "limit": cap,
    }  # fmt: skip
    sentence = (
        f"user {job.user} holds {held} of the {cap} {kind} that one user of team {job.vc} may hold; "
        f"this job needs {needed}"
    )
    return Reason(Code.USER_LIMIT, numbers, sentence)


def class_limit(job: Job, lowest: int, held: int, needed: int, cap: int) -> Reason:
    """The team's jobs of high priority hold as much as such jobs may."""
    numbers: dict[str, int | str] = {
        "vc": job.vc, "priority": lowest, "held": held, "needed": needed, "limit": cap,
    }  # fmt: skip
    sentence = (
        f"jobs of priority {lowest} and higher hold {held} of the {cap} GPUs that team {job.vc} allows them together; "
        f"this job needs {needed}"
    )
    return Reason(Code.USER_LIMIT, numbers, sentence)


def reserved(holder: str, at_ms: int, now: int) -> Reason:
    """The cells that the job could use are kept for one ahead of it."""
    minutes = max(1, round((at_ms - now) / 60_000))
    numbers: dict[str, int | str] = {"job": holder, "at_ms": at_ms, "minutes": minutes}
    sentence = (
        f"the GPUs that it could have are kept for job {holder}, which comes first and can start in {minutes} min"
    )
    return Reason(Code.RESERVED, numbers, sentence)


def preempting(victims: Sequence[str], leaves: int) -> Reason:
    """Others are ending to make room for the job."""
    first = victims[0]
    more = f" and {len(victims) - 1} more" if len(victims) > 1 else ""
    numbers: dict[str, int | str] = {"jobs": len(victims), "first": first, "gpus": leaves}
    gpus = "1 GPU is" if leaves == 1 else f"{leaves} GPUs are"
    ended = "those have ended" if more else "that has ended"
    sentence = f"{gpus} being taken back for it from job {first}{more}; it starts when {ended}"
    return Reason(Code.PREEMPTING, numbers, sentence)


def taking_over(victims: Sequence[str]) -> Reason:
    """The job has cells of others who end, and GPUs on which nobody is: it starts when that is carried out."""
    more = f" and {len(victims) - 1} more" if len(victims) > 1 else ""
    ends = "which are ending" if more else "which is ending"
    numbers: dict[str, int | str] = {"jobs": len(victims), "first": victims[0], "gpus": 0}
    sentence = (
        f"in the team's quota it gets the place of job {victims[0]}{more}, {ends}; free GPUs are there, so it starts "
        f"in a moment"
    )
    return Reason(Code.PREEMPTING, numbers, sentence)


def making_room(victims: Sequence[str]) -> Reason:
    """Free GPUs are there for the job, but not the CPU or memory beside them: others end for that."""
    more = f" and {len(victims) - 1} more" if len(victims) > 1 else ""
    ended = "those have ended" if more else "that has ended"
    numbers: dict[str, int | str] = {"jobs": len(victims), "first": victims[0], "gpus": 0, "resources": 1}
    sentence = f"CPU and memory are being taken back for it from job {victims[0]}{more}; it starts when {ended}"
    return Reason(Code.PREEMPTING, numbers, sentence)


@lru_cache(maxsize=1 << 14)
def order(ahead: int, by_priority: int, by_share: int, by_hand: int = 0, by_kept: int = 0) -> Reason:
    """Jobs of the same team that want the same SKU come first and wait themselves."""
    by_submission = ahead - by_priority - by_share - by_hand - by_kept
    parts = []
    if by_priority:
        parts.append(f"{by_priority} {_has(by_priority)} a higher priority")
    if by_hand:
        parts.append(f"{by_hand} {_was(by_hand)} moved ahead by a lead")
    if by_kept:
        parts.append(f"{by_kept} {_has(by_kept)} cells kept already")
    if by_share:
        whose = "is of a user who has" if by_share == 1 else "are of users who have"
        parts.append(f"{by_share} {whose} used less lately")
    if by_submission:
        parts.append(f"{by_submission} {_was(by_submission)} submitted earlier")
    numbers: dict[str, int | str] = {
        "ahead": ahead, "by_priority": by_priority, "by_share": by_share, "by_submission": by_submission,
    }  # fmt: skip
    if by_hand:
        numbers["by_hand"] = by_hand
    if by_kept:
        numbers["by_kept"] = by_kept
    jobs = "1 job of the team comes" if ahead == 1 else f"{ahead} jobs of the team come"
    return Reason(Code.ORDER, numbers, f"{jobs} first: {', '.join(parts)}")


def loans_lost(times: int, rest_ms: int) -> Reason:
    """What the job had on loan was taken back so often of late that only what has idled for long is lent to it."""
    minutes, often = rest_ms // 60_000, "once" if times == 1 else f"{times} times"
    sentence = (
        f"what it had on loan was taken back {often} within an hour, so it is lent only what has idled for "
        f"{minutes} minutes"
    )
    return Reason(Code.LOANS_LOST, {"times": times, "minutes": minutes}, sentence)


def lend_limit(cell_type: str, lent: int, most: int, needed: int) -> Reason:
    """As much is on loan as teams lend."""
    numbers: dict[str, int | str] = {"sku": cell_type, "lent": lent, "limit": most, "needed": needed}
    sentence = (
        f"all teams together lend at most {most} {cell_type} now, and {lent} {verb_is(lent)} lent; "
        f"this job would borrow {needed}"
    )
    return Reason(Code.LEND_LIMIT, numbers, sentence)


def borrow_limit(vc: str, cell_type: str, held: int, most: int, needed: int) -> Reason:
    """The team borrows as much as it may."""
    numbers: dict[str, int | str] = {"vc": vc, "sku": cell_type, "held": held, "limit": most, "needed": needed}
    sentence = (
        f"team {vc} may borrow at most {most} {cell_type}, and has borrowed {held}; this job would borrow {needed}"
    )
    return Reason(Code.BORROW_LIMIT, numbers, sentence)


def doomed(reason: Reason, vc: str, cell_type: str, cells: int) -> Reason:
    """The same reason, where free cells of the team's quota could only lie on bad hardware."""
    numbers = {**reason.numbers, "doomed": cells, "doomed_type": cell_type}
    sentence = f"{reason.sentence}; because of that, {cells} {cell_type} of team {vc}'s quota cannot be had"
    return Reason(reason.code, numbers, sentence)


def no_cpu_node(shut: int) -> Reason:
    """All nodes on which tasks without GPUs could be take none."""
    which = "the only server that they could run on takes" if shut == 1 else f"the {shut} servers for them take"
    return Reason(Code.FRAGMENTED, {"shut": shut}, f"it has tasks without GPUs, and {which} only tasks with GPUs")


def besides_shut(reason: Reason, shut: int) -> Reason:
    """The same reason of tasks without GPUs, where more nodes would have been for them."""
    more = "1 more server takes" if shut == 1 else f"{shut} more servers take"
    sentence = f"{reason.sentence}; {more} only tasks with GPUs"
    return Reason(reason.code, {**reason.numbers, "shut": shut}, sentence)


def verb_is(count: int) -> str:
    return "is" if count == 1 else "are"


def _has(count: int) -> str:
    return "has" if count == 1 else "have"


def _was(count: int) -> str:
    return "was" if count == 1 else "were"
