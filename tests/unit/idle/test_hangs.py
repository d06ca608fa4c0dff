"""When a training seems to hang: by its own steps and its own power."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from portal.idle.hangs import LEARNED, MINUTE, StepMinute, Watched, watched_after

BEGAN = datetime(2026, 5, 4, tzinfo=UTC)
BUSY = {"utilisation": 100.0, "watts": 1200.0}
STUCK = {"utilisation": 100.0, "watts": 400.0}


def watched(*minutes: StepMinute) -> list[Watched]:
    """The state after each."""
    found: list[Watched] = []
    for number, told in enumerate(minutes, 1):
        found.append(watched_after(found[-1] if found else None, told, BEGAN + number * MINUTE))
    return found


def steps(count: int, *, step_ms: float = 500, **readings: float) -> list[StepMinute]:
    """Minutes of progress."""
    return [StepMinute(step=number, step_ms=step_ms, log_end=0, **readings) for number in range(count)]


def still(minutes: list[StepMinute], count: int, **readings: float) -> list[StepMinute]:
    """So many minutes more in which nothing moves."""
    last = minutes[-1]
    more = StepMinute(last.step, last.step_ms, last.log_end, **readings)
    return [*minutes, *[more] * count]


@pytest.mark.parametrize(
    ("minutes", "hangs"),
    [
        (still(steps(LEARNED, **BUSY), 5, **STUCK), True),
        (still(steps(LEARNED, **BUSY), 4, **STUCK), False),  # not for long enough
        (still(steps(LEARNED, **BUSY), 60, **BUSY), False),  # an evaluation without output
        (still(steps(LEARNED, **BUSY), 60, utilisation=3, watts=300), False),  # idle: another matter
        (still(steps(LEARNED - 1, **BUSY), 60, **STUCK), False),  # not enough is known
        (still(steps(LEARNED, step_ms=60_000, **BUSY), 19, **STUCK), False),  # its steps are long
        (still(steps(LEARNED, step_ms=60_000, **BUSY), 20, **STUCK), True),
        (still(steps(LEARNED, **BUSY, sm=70), 5, **STUCK, sm=18), True),
        (still(steps(LEARNED, **BUSY, sm=70), 60, **STUCK, sm=65), False),  # kernels that draw little: an evaluation
        (still(steps(LEARNED, **BUSY, sm=70), 5, **STUCK), True),  # the counters fail
        (still(steps(LEARNED, **BUSY), 5, **STUCK, sm=18), True),  # nobody knows what is usual
    ],
    ids=["hangs", "short", "works", "idle", "new", "slow", "slow hangs", "few work", "many work", "untold", "unknown"],
)
def test_it_hangs_when_neither_steps_nor_output_come_and_its_gpus_draw_little(
    minutes: list[StepMinute], hangs: bool
) -> None:
    assert watched(*minutes)[-1].hangs is hangs


def test_output_is_progress_too() -> None:
    minutes = still(steps(LEARNED, **BUSY), 5, **STUCK)
    last = minutes[-1]
    found = watched(*minutes, StepMinute(last.step, last.step_ms, last.log_end + 1, **STUCK))
    assert [one.hangs for one in found[-2:]] == [True, False]


def test_what_gpus_do_while_nothing_moves_does_not_count_as_usual() -> None:
    last = watched(*still(steps(LEARNED, **BUSY, sm=70), 60, **STUCK, sm=18))[-1]
    assert (last.usual_w, last.watts, last.usual_sm, last.sm) == (1200, 400, 70, 18)


@pytest.mark.parametrize("later", [{"utilisation": 0.0, "watts": 300.0}, BUSY], ids=["rests", "draws more"])
def test_what_hangs_does_so_until_a_step_or_output_comes(later: dict[str, float]) -> None:
    hung = still(steps(LEARNED, **BUSY), 5, **STUCK)
    found = watched(*still(hung, 3, **later))[-3:]
    assert {(one.hangs, one.watts) for one in found} == {(True, 400)}
