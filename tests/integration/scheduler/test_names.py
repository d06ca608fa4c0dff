"""How a reason names other jobs: whole to their own team, by owner, team and size to the others."""

from __future__ import annotations

import pytest
from pytest_django.fixtures import DjangoAssertNumQueries

from portal.scheduler.waits import Names
from scheduling import Code, Reason
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db


def test_a_team_reads_the_names_of_its_own_jobs_and_no_others(world: World) -> None:
    world.node("gpu01", gpus=4)
    job = world.submit(name="secret", instances=2, gpu=2)
    numbers: dict[str, int | str] = {"job": str(job.pk), "at_ms": 5}
    reason = Reason(Code.RESERVED, numbers, f"4 A100 are kept for job {job.pk}, which came first")
    names = Names({str(job.pk): job.pk}, [reason])
    assert names.told(reason.sentence, vc="vision") == "4 A100 are kept for alice/secret#1, which came first"
    told = names.told(reason.sentence, vc="speech")
    assert told == "4 A100 are kept for a job of alice in vision (4 GPUs), which came first"
    assert names.numbers(reason.numbers, vc="vision") == {"job": "alice/secret#1", "at_ms": 5}
    assert names.numbers(reason.numbers, vc="speech")["job"] == "a job of alice in vision (4 GPUs)"


def test_a_job_that_is_over_by_now_is_another_job(world: World) -> None:
    reason = Reason(Code.RESERVED, {}, "1 A100 is kept for job 77")
    assert Names({}, [reason]).told(reason.sentence, vc="vision") == "1 A100 is kept for another job"


def test_reasons_that_mention_no_job_ask_the_database_nothing(
    world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    reason = Reason(Code.QUOTA, {}, "team vision holds 4 of 4 A100; this job needs 2")
    with django_assert_num_queries(0):
        assert Names({"4": 4}, [reason]).told(reason.sentence, vc="vision") == reason.sentence
