"""OpenPAI's lab 6, its eight job files as they are, on two nodes with one GPU each; what needs preemption left out.

The image of that name is made here: its `examples/mnist/main.py` trains nothing and prints like the real one.
"""

import io
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support import images
from tests.support.docker_engine import DockerEngine
from tests.support.person import Person
from tests.support.postgres import PostgresServer
from tests.support.services import Services
from tests.support.stack import Agent, Stack

LAB6 = Path(__file__).parents[3] / "shared" / "openpai" / "lab6"
IMAGE = "openpai/pai.example.pytorch"
MAIN = """
import argparse
parser = argparse.ArgumentParser()
for name, kind in (("--epochs", int), ("--lr", float), ("--batch-size", int)):
    parser.add_argument(name, type=kind, required=True)
given = parser.parse_args()
for epoch in range(1, given.epochs + 1):
    print(f"Train Epoch: {epoch} [0/60000 (0%)] batches of {given.batch_size} at {given.lr}", flush=True)
"""
QUOTAS = """
from django.utils import timezone
from portal.accounts.models import User
from portal.clusters.models import CellType, VirtualCluster
from portal.clusters.services import member_set, quota_set, vc_create
now, wanted = timezone.now(), {wanted}
for name in wanted:
    if not VirtualCluster.objects.filter(name=name).exists():
        member_set(vc=vc_create(name=name, now=now), user=User.objects.get(username="alice"), role="member", now=now)
for vc in sorted(VirtualCluster.objects.all(), key=lambda vc: wanted.get(vc.name, 0)):
    quota_set(vc=vc, cell_type=CellType.objects.get(child__isnull=True), count=wanted.get(vc.name, 0), now=now)
"""


@pytest.fixture(scope="module")
def lab(services: Services, postgres: PostgresServer, running_docker: DockerEngine) -> Iterator[Person]:
    """Alice, with a virtual cluster `vc1` and another `default`, of one GPU each."""
    agents = [
        Agent(name="node1", gpus="simulated:1xK80-12GB", ports="23000-23499"),
        Agent(name="node2", gpus="simulated:1xK80-12GB", ports="23500-23999"),
    ]
    url = postgres.create_database(f"lab6_{len(services.stacks)}")
    made = Stack(services, database_url=url, docker_url=running_docker.url, agents=agents)
    with closing(made):
        make_image(running_docker)
        made.start()
        share(made, {"vc1": 1, "default": 1})
        yield Person(made, "alice", "vc1")
    running_docker.remove_containers()


@pytest.fixture(autouse=True)
def _ended(lab: Person) -> Iterator[None]:
    yield
    lab.clear()


def make_image(engine: DockerEngine) -> None:
    """The file in the working directory of an image with Python."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        entry = tarfile.TarInfo("workspace/examples/mnist/main.py")
        entry.size = len(MAIN.encode())
        tar.addfile(entry, io.BytesIO(MAIN.encode()))
    with engine.client() as client:
        container = client.containers.create(engine.ensure_image(images.PYTHON), ["true"])
        container.put_archive("/", archive.getvalue())
        container.commit(IMAGE, tag="latest", changes="WORKDIR /workspace")
        container.remove()


def share(stack: Stack, wanted: dict[str, int]) -> None:
    """Give each virtual cluster so many of the GPUs, the smallest shares first."""
    stack.manage("shell", "--verbosity=0", "-c", QUOTAS.format(wanted=wanted))


def config(number: int) -> str:
    return (LAB6 / f"job-config-{number}.yaml").read_text()


def trained(lab: Person, job: int, task: int = 0) -> bool:
    return "Train Epoch: 1 [0/60000 (0%)] batches of 64 at 0.01" in lab.log_lines(job, task)


def test_a_job_trains_in_its_virtual_cluster(lab: Person) -> None:
    job = lab.submit(config(0))
    assert lab.wait(job, "succeeded")["vc"] == "vc1"
    assert trained(lab, job)


def test_a_prod_job_comes_before_a_test_job_that_waited_longer(lab: Person) -> None:
    holds, test = lab.submit(config(1)), lab.submit(config(1))
    lab.wait(holds, "running")
    prod = lab.submit(config(2))
    waiting = lab.wait_for(prod, lambda job: job["waiting"] and job["waiting"]["code"])["waiting"]
    assert (waiting["code"], waiting["place"]) == ("quota", 1)
    assert lab.job(test)["waiting"]["place"] == 2
    lab.stop(holds)
    lab.wait(prod, "running")
    assert lab.job(test)["state"] == "waiting"


def test_an_opportunistic_job_waits_for_a_gpu_that_is_owed_to_no_team_and_borrows_it(lab: Person) -> None:
    prod, oppo = lab.submit(config(3)), lab.submit(config(4))
    lab.wait(prod, "running")
    lab.wait_for(oppo, lambda job: job["waiting"] and job["waiting"]["message"])
    share(lab.stack, {"vc1": 1, "default": 0})
    lab.wait(oppo, "running")
    standings = [lab.task_attempts(job)[0]["gpus"][0]["standing"] for job in (prod, oppo)]
    assert standings == ["guaranteed", "borrowed"]


def test_a_gang_waits_for_both_gpus_and_an_incremental_job_takes_the_one_there_is(lab: Person) -> None:
    share(lab.stack, {"vc1": 0, "default": 2})
    holds, gang = lab.submit(config(5)), lab.submit(config(6))
    lab.wait(holds, "running")
    waiting = lab.wait_for(gang, lambda job: job["waiting"] and job["waiting"]["code"])["waiting"]
    assert waiting["code"] == "quota"
    assert "1 of 2" in waiting["message"]
    lab.stop(holds)
    lab.wait(gang, "succeeded")
    assert {task["node"] for task in lab.task_attempts(gang)} == {"node1", "node2"}

    holds = lab.submit(config(5))
    lab.wait(holds, "running")
    incremental = lab.submit(config(7))
    lab.wait(incremental, "succeeded")
    assert any(trained(lab, incremental, task) for task in range(2))
    assert lab.job(holds)["state"] == "running"


def test_a_gang_larger_than_the_virtual_cluster_is_refused(lab: Person) -> None:
    share(lab.stack, {"vc1": 0, "default": 2})
    text = config(6).replace("instances: 2", "instances: 4")
    answer = lab.http.post("/jobs", content=text, headers={"Content-Type": "application/yaml"})
    assert answer.status_code == 400
    assert "exceeds maximum 2" in answer.text
