"""Since when all GPUs of a job do nothing, and what the policy makes of it: tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from portal.idle.activity import Activity, GpuMinute, Minute, activity_after, minute_of
from portal.idle.rules import Exemption, Holder, Terms, Verdict, Warned, exempt, judge
from portal.jobs.states import IdleAction, IdleEnd

MINUTES = {"t": Minute(100, whole=True), "-": Minute(None, whole=False), "?": Minute(0, whole=False)}
"""At work; nothing told; one GPU of several told, and that it is idle."""


def played(story: str, first: int = 1000) -> Activity | None:
    """A minute for each letter: a digit is the busiest GPU's percentage, of which all GPUs told."""
    activity = None
    for at, letter in enumerate(story, first):
        minute = MINUTES[letter] if letter in MINUTES else Minute(int(letter), whole=True)
        activity = activity_after(activity, at, minute)
    return activity


STORIES = {
    "every minute below counts": ("t0000", 5, 4),
    "so it does for whom it was never seen at work": ("0000", 5, 4),
    "a minute at the limit is work": ("t005", 5, 0),
    "what is work for one policy is idle for another": ("t005", 6, 3),
    "the last work counts, not the largest": ("t00900", 5, 2),
    "minutes without readings do not count, and a few of them change nothing": ("t00----00", 5, 4),
    "after more than a few it begins anew": ("t00-----00", 5, 2),
    "some GPUs that tell of no work say nothing of the others": ("t00??0", 5, 3),
    "a long time with only some of them begins anew": ("t00?????00", 5, 2),
}


@pytest.mark.parametrize("name", STORIES)
def test_how_long_all_gpus_have_been_idle(name: str) -> None:
    story, percent, minutes = STORIES[name]
    activity = played(story)
    assert activity is not None
    assert activity.below(percent).minutes == minutes


def test_one_gpu_that_works_is_work_though_others_tell_nothing() -> None:
    before = played("t000")
    activity = activity_after(before, 1004, Minute(50, whole=False))
    assert activity is not None
    assert (activity.below(5).minutes, activity.below(60).minutes) == (0, 3)


def test_a_minute_that_comes_twice_counts_once() -> None:
    activity = played("t00")
    assert activity_after(activity, 1002, Minute(0, whole=True)) == activity


def test_it_stays_small_however_long_the_job_runs() -> None:
    activity = None
    for at in range(20_000):
        activity = activity_after(activity, at, Minute(at * 37 % 101 % 100, whole=True))
    assert activity is not None
    assert len(activity.steps) <= 101


def test_since_when_is_the_end_of_the_last_work() -> None:
    activity = played("t9000")
    assert activity is not None
    assert (activity.below(5).since, activity.below(5).known) == (1002, True)
    unknown = played("00")
    assert unknown is not None
    assert unknown.below(5).known is False


IDLE, BUSY, SILENT = GpuMinute(60_000, 2.0), GpuMinute(60_000, 80.6), GpuMinute(0, 0)
TASKS: dict[str, tuple[list[list[GpuMinute] | None], Minute]] = {
    "the busiest of all tasks counts": ([[IDLE], [IDLE, BUSY]], Minute(80, True)),
    "a percentage is rounded down": ([[GpuMinute(60_000, 4.9)]], Minute(4, True)),
    "a task that tells nothing leaves the minute open": ([[IDLE], None], Minute(2, False)),
    "so does a GPU that tells nothing": ([[IDLE, SILENT]], Minute(2, False)),
    "and one that told of less than half of it": ([[IDLE, GpuMinute(20_000, 0)]], Minute(2, False)),
    "nobody told": ([None], Minute(None, False)),
}


@pytest.mark.parametrize("name", TASKS)
def test_the_minute_of_a_job(name: str) -> None:
    tasks, minute = TASKS[name]
    assert minute_of(tasks) == minute


NOW = datetime(2026, 5, 4, 14, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TERMS = Terms(IdleAction.STOP, percent=5, minutes=10, after_minutes=30, source="vision")


def idle_for(minutes: int) -> Activity:
    """All GPUs idle for so long up to now."""
    activity = played("t" + "0" * minutes, int(NOW.timestamp()) // 60 - minutes - 1)
    assert activity is not None
    return activity


def warned(ago: int, *, acted: bool = False, terms: Terms = TERMS) -> Warned:
    """So many minutes ago, after ten idle minutes."""
    at = NOW - ago * MINUTE
    return Warned(terms, at - 10 * MINUTE, None if terms.follows is None else at + terms.follows, acted)


WARN_ONLY = replace(TERMS, action=IdleAction.WARN)
OFF = replace(TERMS, action=IdleAction.OFF)
JUDGED = {
    "not long enough": ((TERMS, False, idle_for(9), None), Verdict.NOTHING),
    "long enough": ((TERMS, False, idle_for(10), None), Verdict.WARN),
    "only a warning is wanted": ((WARN_ONLY, False, idle_for(10), None), Verdict.WARN),
    "nothing is wanted": ((OFF, False, idle_for(99), None), Verdict.NOTHING),
    "who is exempt": ((TERMS, True, idle_for(99), None), Verdict.NOTHING),
    "warned already": ((TERMS, False, idle_for(15), warned(5)), Verdict.NOTHING),
    "warned long enough": ((TERMS, False, idle_for(40), warned(30)), Verdict.ACT),
    "a warning on which nothing follows": ((WARN_ONLY, False, idle_for(99), warned(89, terms=WARN_ONLY)),
                                           Verdict.NOTHING),
    "at work since": ((TERMS, False, idle_for(3), warned(30)), IdleEnd.WORKED),
    "at work and idle again since": ((TERMS, False, idle_for(12), warned(30)), IdleEnd.WORKED),
    "exempt since": ((TERMS, True, idle_for(40), warned(30)), IdleEnd.EXEMPT),
    "another policy since": ((replace(TERMS, percent=4), False, idle_for(40), warned(30)), IdleEnd.POLICY),
    "no policy any more": ((OFF, False, idle_for(40), warned(30)), IdleEnd.POLICY),
    "done already": ((TERMS, False, idle_for(60), warned(50, acted=True)), Verdict.NOTHING),
    "what was done outlives its policy": ((OFF, True, idle_for(60), warned(50, acted=True)), Verdict.NOTHING),
    "done, and at work": ((TERMS, False, idle_for(0), warned(50, acted=True)), IdleEnd.WORKED),
}  # fmt: skip


@pytest.mark.parametrize("name", JUDGED)
def test_what_becomes_of_a_job(name: str) -> None:
    (terms, left_alone, activity, warning), verdict = JUDGED[name]
    found = judge(terms=terms, left_alone=left_alone, activity=activity, warned=warning, folded_to=NOW, now=NOW)
    assert found == verdict


def test_nobody_is_judged_while_readings_are_taken_in_late() -> None:
    for warning in (None, warned(30)):
        found = judge(
            terms=TERMS, left_alone=False, activity=idle_for(40), warned=warning, folded_to=NOW, now=NOW + 6 * MINUTE
        )
        assert found == Verdict.NOTHING


def test_of_whom_nothing_is_heard_any_more_nothing_is_done() -> None:
    later = NOW + 7 * MINUTE
    for warning, verdict in ((None, Verdict.NOTHING), (warned(30), IdleEnd.UNKNOWN)):
        found = judge(terms=TERMS, left_alone=False, activity=idle_for(40), warned=warning, folded_to=later, now=later)
        assert found == verdict


JOB = Holder(job=7, name="Debug-Notebook", user=3, vc=1, tags=frozenset({"interactive"}))
EXEMPTIONS = {
    "its user, everywhere": (Exemption(user=3), True),
    "its user in its team": (Exemption(vc=1, user=3), True),
    "its user in another team": (Exemption(vc=2, user=3), False),
    "another user": (Exemption(user=4), False),
    "the job": (Exemption(job=7), True),
    "another job": (Exemption(job=8), False),
    "its name, in whatever letters": (Exemption(pattern="*notebook"), True),
    "another name": (Exemption(pattern="train-*"), False),
    "its name and another user": (Exemption(user=4, pattern="*notebook"), False),
    "its tag": (Exemption(tag="interactive"), True),
    "another tag": (Exemption(tag="active"), False),
    "its tag and another name": (Exemption(tag="interactive", pattern="train-*"), False),
    "until later": (Exemption(job=7, until=NOW + MINUTE), True),
    "until now": (Exemption(job=7, until=NOW), False),
}


@pytest.mark.parametrize("name", EXEMPTIONS)
def test_who_is_left_alone(name: str) -> None:
    exemption, left_alone = EXEMPTIONS[name]
    assert exempt(JOB, [exemption], NOW) is left_alone


@pytest.mark.parametrize(("known", "follows"), [(NOW - MINUTE, Verdict.NOTHING), (NOW, Verdict.ACT)])
def test_nothing_is_done_before_all_minutes_up_to_its_time_are_known(known: datetime, follows: Verdict) -> None:
    warning = warned(30)
    assert warning.due_at == NOW
    activity = idle_for(40)
    found = judge(terms=TERMS, left_alone=False, activity=activity, warned=warning, folded_to=known, now=NOW)
    assert found == follows
