"""Many submissions of one person at the same moment: runs follow each other, a key makes one job, the limit holds."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from portal.common.errors import TooManyAtOnce
from portal.jobs.models import Job
from portal.jobs.services.submit import job_submit
from tests.support.cluster.world import World, job_file

pytestmark = pytest.mark.django_db(transaction=True)
AT_ONCE = 12


@pytest.fixture
def world() -> World:
    world = World()
    world.node("gpu01", gpus=1)
    return world


def submitted(world: World, *, key: str = "") -> list[Job | None]:
    """The jobs of as many submissions at once; None: refused as too many."""

    def submit(_: int) -> Job | None:
        try:
            return job_submit(user=world.user, text=job_file(), now=timezone.now(), submit_key=key)
        except TooManyAtOnce:
            return None
        finally:
            connections.close_all()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(submit, range(AT_ONCE)))


def test_each_is_a_run_of_its_own(world: World) -> None:
    assert sorted(job.run for job in submitted(world) if job) == [*range(1, AT_ONCE + 1)]


def test_one_key_makes_one_job(world: World) -> None:
    assert {job.pk for job in submitted(world, key="once") if job} == {Job.objects.get().pk}


def test_no_more_wait_than_the_limit(world: World, settings: Any) -> None:
    settings.WAITING_TASKS = 5
    assert sum(job is not None for job in submitted(world)) == Job.objects.count() == 5
