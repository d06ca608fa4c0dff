"""Rules for idle jobs: the policy's terms, exemptions, and the one judgement. No database, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase

from portal.idle.activity import GAP, Activity
from portal.jobs.states import IDLE_ENDS, IdleAction, IdleEnd

MINUTE = timedelta(minutes=1)
BEHIND = 5 * MINUTE
"""Nobody is judged while readings are further behind than this."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Policy terms: GPU use below ``percent`` for ``minutes`` is warned of, and ``action`` follows ``after_minutes``
    later. ``source``: the virtual cluster whose policy it is (empty: the cluster's)."""

    action: str
    percent: int
    minutes: int
    after_minutes: int
    source: str = ""

    @property
    def follows(self) -> timedelta | None:
        """How long after the warning the action follows; None: never."""
        return self.after_minutes * MINUTE if self.action in IDLE_ENDS else None


@dataclass(frozen=True, slots=True)
class Exemption:
    """Jobs that are left alone: of a virtual cluster, of a user, one, by name or tag. Unset fields match everything."""

    vc: int | None = None
    user: int | None = None
    job: int | None = None
    pattern: str = ""
    tag: str = ""
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that holds GPUs. ``tags``: at least those of its tags that an exemption names."""

    job: int
    name: str
    user: int
    vc: int
    tags: frozenset[str] = frozenset()


def exempt(job: Holder, exemptions: Iterable[Exemption], now: datetime) -> bool:
    """Whether one of the exemptions covers the job."""
    return any(_means(one, job) and (one.until is None or now < one.until) for one in exemptions)


def _means(one: Exemption, job: Holder) -> bool:
    named = ((one.vc, job.vc), (one.user, job.user), (one.job, job.job))
    return (
        all(wanted in (None, own) for wanted, own in named)
        and (not one.pattern or fnmatchcase(job.name.lower(), one.pattern.lower()))
        and (not one.tag or one.tag in job.tags)
    )


@dataclass(frozen=True, slots=True)
class Warned:
    """An open warning with the terms it announced."""

    terms: Terms
    since: datetime
    due_at: datetime | None
    acted: bool


class Verdict(StrEnum):
    """What to do about a job."""

    NOTHING = "nothing"
    WARN = "warn"
    ACT = "act"


def judge(
    *, terms: Terms, left_alone: bool, activity: Activity, warned: Warned | None, folded_to: datetime, now: datetime
) -> Verdict | IdleEnd:
    """Decides what happens to the job; an ``IdleEnd`` ends its warning.

    1. While readings are late, nothing is decided.
    2. A job without a warning is warned once all GPUs were idle for long enough and the newest minutes are known.
    3. A warning ends when a GPU works, when nothing is known any more, when the job is exempt, or when the terms
       changed; an action taken is not undone.
    4. Otherwise, once its time has come and all minutes before it are known, the announced action is taken, once.
    """
    if now - folded_to > BEHIND:
        return Verdict.NOTHING
    known = folded_to - _moment(activity.last, folded_to) <= (GAP + 1) * MINUTE
    off = left_alone or terms.action == IdleAction.OFF
    if warned is None:
        idle = known and activity.below(terms.percent).minutes >= terms.minutes
        return Verdict.WARN if idle and not off else Verdict.NOTHING
    stretch = activity.below(warned.terms.percent)
    if _moment(stretch.since, now) > warned.since:
        return IdleEnd.WORKED if stretch.known else IdleEnd.UNKNOWN
    if not known:
        return IdleEnd.UNKNOWN
    if warned.acted:
        return Verdict.NOTHING
    if off or terms != warned.terms:
        return IdleEnd.EXEMPT if left_alone else IdleEnd.POLICY
    return Verdict.ACT if warned.due_at is not None and folded_to >= warned.due_at else Verdict.NOTHING


def _moment(minute: int, like: datetime) -> datetime:
    return datetime.fromtimestamp(minute * 60, tz=like.tzinfo)
