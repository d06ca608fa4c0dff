"""OpenPAI's lab 6: its experiments with eight job files like its own, on two nodes with one GPU each.

The cluster comes from configurations in HiveD's form: first one node for each of two virtual clusters, then both for
one. The image is made here: its `mnist/train.py` trains nothing and prints as if it did.
"""

import io
import tarfile
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from typing import Any

import pytest

from berth import NotValid
from tests.support.cluster.lab6 import IMAGE, lab_job
from tests.support.cluster.stack import Agent, Stack
from tests.support.images import images
from tests.support.people.person import Person
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.migrated import postgres_copy
from tests.support.services.postgres import PostgresServer
from tests.support.services.services import Services

MAIN = """
import argparse
parser = argparse.ArgumentParser()
for name, kind in (("--epochs", int), ("--lr", float), ("--batch-size", int)):
    parser.add_argument(name, type=kind, required=True)
given = parser.parse_args()
for epoch in range(1, given.epochs + 1):
    print(f"Train Epoch: {epoch} [0/60000 (0%)] batches of {given.batch_size} at {given.lr}", flush=True)
"""
CLUSTER = """
physicalCluster:
  skuTypes:
    K80: {gpu: 1, cpu: 2, memory: 4096Mi}
  cellTypes:
    K80-NODE: {childCellType: K80, childCellNumber: 1, isNodeLevel: true}
    K80-NODE-POOL: {childCellType: K80-NODE, childCellNumber: 2}
  physicalCells:
  - cellType: K80-NODE-POOL
    cellChildren:
    - cellAddress: carol
    - cellAddress: dan
virtualClusters:
"""
MEMBERS = """
from django.utils import timezone
from portal.accounts.models import User
from portal.teams.models import VirtualCluster
from portal.teams.services.teams import member_set
for vc in VirtualCluster.objects.filter(name__in=("default", "vc1")):
    member_set(vc=vc, user=User.objects.get(username="alice"), role="member", now=timezone.now())
"""


@pytest.fixture(scope="module")
def two_vcs(services: Services, postgres: PostgresServer, running_docker: DockerEngine) -> Iterator[Person]:
    """Alice, a member of `vc1` and of `default`, which have a node each."""
    agents = [
        Agent(name="carol", gpus="simulated:1xK80-12GB", ports="23000-23499"),
        Agent(name="dan", gpus="simulated:1xK80-12GB", ports="23500-23999"),
    ]
    url = postgres_copy(postgres, f"lab6_{len(services.stacks)}")
    made = Stack(services, database_url=url, docker_url=running_docker.url, agents=agents)
    with closing(made):
        make_image(running_docker)
        made.start()
        share(made, vc1=1, default=1)
        made.manage("shell", "--verbosity=0", "-c", MEMBERS)
        yield Person(made, "alice", "vc1")
    running_docker.remove_containers()


def make_image(engine: DockerEngine) -> None:
    """The file in the working directory of an image with Python."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        entry = tarfile.TarInfo("workspace/mnist/train.py")
        entry.size = len(MAIN.encode())
        tar.addfile(entry, io.BytesIO(MAIN.encode()))
    with engine.client() as client:
        container = client.containers.create(engine.ensure_image(images.PYTHON), ["true"])
        container.put_archive("/", archive.getvalue())
        container.commit(IMAGE, tag="latest", changes="WORKDIR /workspace")
        container.remove()


def share(stack: Stack, **nodes: int) -> None:
    """Make the lab's configuration the cluster's, with so many nodes for each virtual cluster."""
    cell = "K80-NODE-POOL.K80-NODE"
    cells = {vc: f"virtualCells: [{{cellType: {cell}, cellNumber: {count}}}]" for vc, count in nodes.items()}
    lines = [f"  {vc}: {{{owned}, hostNetwork: true}}" for vc, owned in cells.items()]
    file = stack.folder / "cluster.yaml"
    file.write_text(CLUSTER + "\n".join(lines))
    said = stack.manage("cluster", "import", str(file))
    assert f"\nDone: 2 nodes, {len(nodes)} virtual clusters" in f"\n{said}"


@pytest.fixture(scope="module")
def one_vc(two_vcs: Person) -> Person:
    """The lab's second cluster, from here on: both nodes are the quota of `default`."""
    share(two_vcs.stack, default=2)
    return two_vcs


@pytest.fixture
def lab(two_vcs: Person) -> Iterator[Person]:
    """The lab as the last test left it, without jobs."""
    yield two_vcs
    two_vcs.clear()


def trained(lab: Person, job: int, task: int = 0) -> bool:
    return "Train Epoch: 1 [0/60000 (0%)] batches of 64 at 0.01" in lab.log_lines(job, task)


def only(lab: Person, job: int) -> dict[str, Any]:
    """The newest attempt of a job's only task."""
    (task,) = lab.task_attempts(job)
    return task


def test_vc_safety_jobs_of_a_virtual_cluster_run_one_at_a_time_on_its_one_node(lab: Person) -> None:
    jobs = [lab.submit(lab_job(0)) for _ in range(3)]
    for job in jobs:
        assert lab.wait(job, "succeeded")["vc"] == "vc1"
        assert trained(lab, job)
    tasks = [only(lab, job) for job in jobs]
    assert len({task["node"] for task in tasks}) == 1, "the other team's node stays idle"
    assert all(first["ended_at"] <= then["started_at"] for first, then in pairwise(tasks))


def test_preemption_a_prod_job_takes_the_node_of_a_test_job_which_runs_again_after_it(lab: Person) -> None:
    test = lab.submit(lab_job(1))
    lab.wait(test, "running")
    prod = lab.submit(lab_job(2))
    lab.wait(prod, "running")
    lab.wait_for(test, lambda job: job["waiting"] and job["waiting"]["code"] == "quota")
    assert [one["end_reason"] for one in lab.attempts(test)] == ["preempted"]
    lab.stop(prod)
    again = lab.wait(test, "running")
    assert again["retries"] == 1, "the platform's retry: the file allows none of the user's"
    assert trained(lab, prod)
    assert only(lab, test)["node"] == only(lab, prod)["node"]


def test_opportunistic_a_job_borrows_the_other_teams_node_until_that_team_needs_it(lab: Person) -> None:
    prod = lab.submit(lab_job(3))
    lab.wait(prod, "running")
    oppo = lab.submit(lab_job(4))
    lab.wait(oppo, "running")
    assert [only(lab, job)["gpus"][0]["standing"] for job in (prod, oppo)] == ["guaranteed", "borrowed"]
    assert only(lab, prod)["node"] != only(lab, oppo)["node"]
    lent = only(lab, oppo)["node"]

    owners = lab.submit(lab_job(1).replace("virtualCluster: vc1", "virtualCluster: default"))
    lab.wait(owners, "running")
    assert only(lab, owners)["node"] == lent
    lab.wait_for(oppo, lambda job: job["waiting"] and job["waiting"]["code"])
    assert lab.job(prod)["state"] == "running"


@pytest.mark.usefixtures("one_vc")
def test_gang_both_tasks_wait_and_start_together_when_the_running_job_ends(lab: Person) -> None:
    holds, gang = lab.submit(lab_job(5)), lab.submit(lab_job(6))
    lab.wait(holds, "running")
    waiting = lab.wait_for(gang, lambda job: job["waiting"] and job["waiting"]["code"])["waiting"]
    assert waiting["code"] == "quota"
    assert "1 of its 2" in waiting["message"]
    assert not any(task["attempts"] for task in lab.tasks(gang))
    lab.stop(holds)
    lab.wait(gang, "succeeded")
    assert {task["node"] for task in lab.task_attempts(gang)} == {"carol", "dan"}


@pytest.mark.usefixtures("one_vc")
def test_incremental_a_job_that_is_no_gang_starts_one_task_on_the_free_node(lab: Person) -> None:
    holds = lab.submit(lab_job(5))
    lab.wait(holds, "running")
    incremental = lab.submit(lab_job(7))
    lab.wait(incremental, "succeeded")
    assert any(trained(lab, incremental, task) for task in range(2))
    assert lab.job(holds)["state"] == "running"


@pytest.mark.usefixtures("one_vc")
def test_over_quota_a_larger_gang_is_refused_and_single_tasks_run_two_at_a_time(lab: Person) -> None:
    four = lab_job(6).replace("instances: 2", "instances: 4")
    with pytest.raises(NotValid, match="exceeds maximum 2"):
        lab.submit(four)
    single = (
        lab_job(7)
        .replace("instances: 2", "instances: 4")
        .replace("--batch-size 64\n", "--batch-size 64\n    - sleep 5m\n")
    )
    job = lab.submit(single)
    lab.wait_for(job, lambda _: sum(trained(lab, job, task) for task in range(4)) == 2)
    assert [bool(task["attempts"]) for task in lab.tasks(job)] == [True, True, False, False]
