"""The client and jobs: submitted, read, waited for, stopped."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import pytest

from berth import AsyncClient, Client, Conflict, JobUnfinished, NotFound, NotValid
from tests.support.cluster.world import job_file

if TYPE_CHECKING:
    from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_job_from_its_file_to_its_end(world: World, berth: Client) -> None:
    world.node("gpu01")
    job = berth.jobs.submit(job_file(instances=2))
    assert (job.label, job.state, job.over) == ("alice/train#1", "waiting", False)
    world.settle()
    assert berth.jobs.wait(job.id, "running", timeout_s=10).state == "running"
    tasks = list(berth.jobs.tasks(job.id))
    assert [(task.name, task.attempts[0].node) for task in tasks] == [("worker/0", "gpu01"), ("worker/1", "gpu01")]
    world.nodes["gpu01"].finish()
    ended = berth.jobs.wait(job.id, timeout_s=10)
    assert (ended.state, ended.over) == ("succeeded", True)
    assert next(berth.jobs.events(job.id)).code == "submitted"
    assert next(berth.jobs.attempts(job.id)).end_reason == "succeeded"
    with pytest.raises(Conflict):
        berth.jobs.stop(job.id)


def test_every_problem_of_a_file_comes_with_its_path_and_line(world: World, berth: Client) -> None:
    world.node("gpu01")
    with pytest.raises(NotValid) as refused:
        berth.jobs.submit(job_file(gpu=99, role={"instances": 0}, nonsense=1))
    faults = {fault.path: fault for fault in refused.value.errors}
    assert {"nonsense", "taskRoles.worker.instances"} <= faults.keys()
    assert (faults["nonsense"].line or 0) > 1
    assert not berth.jobs.validate(job_file(gpu=99)).valid


def test_a_job_that_is_not_there_is_an_error_of_its_own(berth: Client) -> None:
    with pytest.raises(NotFound, match="job 4711"):
        berth.jobs.get(4711)


def test_waiting_ends_with_its_time_and_the_job_goes_on(world: World, berth: Client) -> None:
    world.node("gpu01")
    job = berth.jobs.submit(job_file())
    with pytest.raises(JobUnfinished) as late:
        berth.jobs.wait(job.id, timeout_s=0.1)
    assert late.value.state == "waiting"
    assert berth.jobs.get(job.id).state == "waiting"


def test_a_list_brings_its_pages_as_it_is_read(world: World, berth: Client) -> None:
    world.node("gpu01")
    made = [berth.jobs.submit(job_file(name=f"run{number}")).id for number in range(5)]
    assert [job.id for job in berth.jobs.list(page=2)] == made[::-1]
    assert [job.id for job in islice(berth.jobs.list(page=1), 2)] == made[:2:-1]
    assert [job.name for job in berth.jobs.list(name="run3", state=["waiting", "running"])] == ["run3"]
    again = berth.jobs.submit(job_file(name="run3")).id
    assert [job.id for job in berth.jobs.list(name="run3", page=1)] == [again, made[3]], "each page is asked the same"


def test_what_waits_says_why_and_can_be_held_back(world: World, berth: Client) -> None:
    world.node("gpu01", gpus=1)
    first, second = (berth.jobs.submit(job_file()).id for _ in range(2))
    world.settle()
    waiting = berth.jobs.get(second).waiting
    assert waiting is not None
    assert (waiting.code, waiting.place) == ("quota", 1)
    assert [one.job for one in berth.queue(vc="vision")] == [second]
    paused = berth.jobs.pause(second).waiting
    assert paused is not None
    assert paused.paused
    assert berth.jobs.resume(second).state == "waiting"
    estimate = berth.jobs.estimate(job_file())
    assert (estimate.nodes, estimate.waiting is not None) == ([], True)
    assert berth.jobs.stop(first).state == "stopping"


def test_the_same_key_is_the_same_job(world: World, berth: Client) -> None:
    world.node("gpu01")
    assert berth.jobs.submit(job_file(), key="k").id == berth.jobs.submit(job_file(), key="k").id
    assert "virtualCluster: vision" in berth.jobs.config(next(berth.jobs.list()).id)


async def test_the_async_client_does_the_same(world: World, url: str, token: str) -> None:
    async with AsyncClient(url, token, trust_env=False) as berth:
        assert (await berth.me()).username == "alice"
        with pytest.raises(NotFound):
            await berth.jobs.get(1)
        assert [vc.name async for vc in berth.virtual_clusters.list()] == ["vision"]
        with pytest.raises(NotValid):
            await berth.jobs.submit("nonsense: 1")
