"""The record of a task attempt: points that are merged truly, a file that stays small, and half lines passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from portal.metrics.points import Point, coarsened, merged
from portal.metrics.record import Records

ATTEMPT = "0b0e3a52-6a3c-4a7e-9f0d-0c7f4f1c5b7e"
BEGAN = 1_777_891_200


def point(at: int, value: float, *, seconds: int = 10, read: int = 2) -> Point:
    return Point(BEGAN + at, seconds, read, [(value, value - 1, value + 1), None])


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path)


def test_points_are_merged_by_how_many_readings_they_have() -> None:
    many, few = Point(0, 10, 3, [(10, 5, 20), (1, 1, 1)]), Point(10, 10, 1, [(50, 40, 60), None])
    assert merged([many, few], 0, 60) == Point(0, 60, 4, [(20.0, 5, 60), (1.0, 1, 1)])


def test_points_that_are_longer_than_a_step_stay_as_they_are() -> None:
    long, short = point(0, 5, seconds=120), [point(120, 1), point(130, 3), point(180, 7)]
    steps = [(one.at - BEGAN, one.seconds) for one in coarsened([long, *short], 60)]
    assert steps == [(0, 120), (120, 20), (180, 10)]


def test_the_first_hour_has_ten_seconds_and_what_follows_minutes(records: Records) -> None:
    for age in (0, 3540, 3600):
        records.add(ATTEMPT, [point(age + second, 40) for second in range(0, 60, 10)], age_s=age)
    assert [one.seconds for one in records.read(ATTEMPT)] == [10] * 12 + [60]


def test_points_that_another_release_wrote_keep_no_record_from_being_shortened(records: Records) -> None:
    older = [point(60 * minute, 40)._replace(bands=[(40, 40, 40)]) for minute in range(400)]
    records.add(ATTEMPT, older, age_s=3600)
    for minute in (400, 720):
        records.add(ATTEMPT, [point(60 * minute, 40, seconds=60)], age_s=60 * minute)
    assert [one.at - BEGAN for one in records.read(ATTEMPT)] == [60 * 400, 60 * 720]


def test_a_run_of_three_days_keeps_a_bounded_record_with_its_mean_least_and_most(records: Records) -> None:
    longest = 0
    for minute in range(3 * 24 * 60):
        value = 99 if minute == 1000 else 10
        told = [point(60 * minute + second, value) for second in range(0, 60, 10)]
        records.add(ATTEMPT, told, age_s=60 * minute)
        if minute % 180 == 0:
            longest = max(longest, len(records.read(ATTEMPT)))
    points = records.read(ATTEMPT)
    assert longest <= 730
    assert (points[0].at, points[-1].at + points[-1].seconds) == (BEGAN, BEGAN + 3 * 86_400)
    assert all(one.at + one.seconds == after.at for one, after in zip(points, points[1:], strict=False))
    bands = [band for one in points if (band := one.bands[0])]
    assert max(band[2] for band in bands) == 100
    assert min(band[1] for band in bands) == 9
    assert sum(one.read for one in points) == 3 * 24 * 60 * 6 * 2
    whole = merged(points, 0, 1).bands[0]
    assert whole is not None
    assert whole[0] == pytest.approx(10 + 89 / 4320, abs=0.1)


def test_a_line_that_a_killed_writer_left_half_spoils_no_other(records: Records) -> None:
    records.add(ATTEMPT, [point(0, 5)], age_s=0)
    with records.path(ATTEMPT).open("ab") as file:
        file.write(b"\n[1777891210,10,2,[[5")
    records.add(ATTEMPT, [point(60, 5)], age_s=60)
    assert [one.at - BEGAN for one in records.read(ATTEMPT)] == [0, 60]


def test_a_minute_that_is_added_twice_counts_once(records: Records) -> None:
    for _ in range(2):
        records.add(ATTEMPT, [point(0, 5), point(10, 6)], age_s=0)
    assert [one.at - BEGAN for one in records.read(ATTEMPT)] == [0, 10]


def test_a_minute_that_comes_again_after_its_record_was_made_coarser_counts_once(records: Records) -> None:
    path = records.path(ATTEMPT)
    records.add(ATTEMPT, [point(0, 5, seconds=120)], age_s=0)
    records.add(ATTEMPT, [point(60, 5, seconds=60)], age_s=4000)
    assert len(path.read_bytes().split()) == 2
    assert [one.seconds for one in records.read(ATTEMPT)] == [120]


def test_a_record_whose_run_is_over_is_small_and_the_same(records: Records) -> None:
    for minute in range(60):
        told = [point(60 * minute + second, 40) for second in range(0, 60, 10)]
        records.add(ATTEMPT, told, age_s=60 * minute, over=minute == 59)
    assert not records.path(ATTEMPT).exists()
    assert records.packed(ATTEMPT).stat().st_size < 4000
    assert len(records.read(ATTEMPT)) == 360
    for _ in range(2):  # as after a fold that was killed
        records.add(ATTEMPT, [point(3600, 40)], age_s=3600, over=True)
    assert len(records.read(ATTEMPT)) == 361


def test_a_record_that_is_no_file_of_ours_any_more_is_empty(records: Records) -> None:
    records.add(ATTEMPT, [point(0, 40)], age_s=0, over=True)
    records.packed(ATTEMPT).write_bytes(b"\x1f\x8b broken")
    assert records.read(ATTEMPT) == []


def test_there_is_no_record_before_the_first_point(records: Records) -> None:
    assert records.read(ATTEMPT) == []
