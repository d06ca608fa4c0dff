"""The variables of a task: OpenPAI's, and only as many as a program can be started with."""

from __future__ import annotations

import subprocess

import pytest
from django.utils.translation import override

from portal.common.sentences import worded
from portal.jobs.models import JobEvent
from portal.node_orders.services import environment as variables
from portal.node_orders.services.environment import LEFT_OUT, Facts, Peer, environment, shared_variables
from tests.support.cluster.job_files import spec
from tests.support.cluster.world import World


def of_a_job(tasks: int, role: str = "train", *, run: int = 1, http: tuple[int, ...] = (30_001,)) -> dict[str, str]:
    """Those of the first of so many tasks, each with its ports on a server."""
    peers = [
        Peer(role, index, index, "192.168.100.100", {"ssh": (30_000 + index,), "http": http}, 1)
        for index in range(tasks)
    ]
    one = spec(("taskRoles/train/instances", tasks))
    return environment(
        Facts(
            spec=one, user="alice", run=run, attempt=1, me=peers[0], peers=peers, interface="eth0", gpu_indices=[0],
            job_dir="/berth/job", workdir="/workspace", grace_s=30,
        ),
        shared_variables(peers),
    )  # fmt: skip


def test_of_few_tasks_each_is_named() -> None:
    env = of_a_job(3)
    assert env["PAI_TASK_ROLE_INSTANCES"] == "train:0,train:1,train:2"
    assert env["PAI_TASK_ROLE_train_HOST_LIST"] == ",".join(["192.168.100.100:30001"] * 3)
    assert env["PAI_HOST_IP_train_2"] == "192.168.100.100"
    assert (env["PAI_PORT_LIST_train_2_ssh"], env["PAI_train_2_ssh_PORT"]) == ("30002", "30002")
    assert LEFT_OUT not in env
    assert env["PYTHONUNBUFFERED"] == "1"
    assert env["PAI_CONTAINER_HOST_PORT_LIST"] == "".join(
        f"{label}:{env[f'PAI_CONTAINER_HOST_{label}_PORT_LIST']};" for label in ("ssh", "http")
    )


def test_openpai_s_variables_have_its_names_and_values() -> None:
    env = of_a_job(2, "PS_server", run=2, http=(30_001, 30_002))
    assert env["PAI_TASK_ROLE_INSTANCES"] == "psserver:0,psserver:1"
    assert env["PAI_TASK_ROLE_psserver_HOST_LIST"] == ",".join(["192.168.100.100:30001"] * 2)
    assert env["PAI_HOST_IP_psserver_0"] == env["PAI_CURRENT_CONTAINER_IP"]
    assert env["PAI_CURRENT_TASK_ROLE_NAME"] == "PS_server"
    assert env["PAI_CONTAINER_HOST_http_PORT_LIST"] == "30001,30002"
    assert {env["PAI_CURRENT_CONTAINER_PORT"], env["PAI_CONTAINER_HOST_PORT"]} == {"30001"}
    assert env["PAI_RESOURCE_train"] == "1,1,256,0"
    assert (of_a_job(1)["PAI_FRAMEWORK_NAME"], env["PAI_FRAMEWORK_NAME"]) == ("alice~good", "alice~good-2")


def test_one_task_meets_itself_where_it_is_and_torchrun_takes_a_port_of_its_own() -> None:
    alone, first = of_a_job(1), of_a_job(2)
    assert (alone["MASTER_ADDR"], first["MASTER_ADDR"]) == ("127.0.0.1", "192.168.100.100")
    assert alone["MASTER_PORT"]
    shape = {"PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE"}
    assert {name for name in alone if name.startswith("PET_")} == shape
    assert {name for name in first if name.startswith("PET_")} == shape | {"PET_MASTER_ADDR", "PET_MASTER_PORT"}


@pytest.mark.parametrize(
    ("tasks", "without"),
    [
        (2_000, ""),
        (4_000, "PAI_HOST_IP_* PAI_PORT_LIST_* PAI_*_PORT"),
        (
            10_000,
            "PAI_TASK_ROLE_INSTANCES PAI_TASK_ROLE_train_HOST_LIST PAI_HOST_IP_* PAI_PORT_LIST_* PAI_*_PORT",
        ),
    ],
)
def test_a_program_starts_however_many_tasks_there_are(tasks: int, without: str) -> None:
    env = of_a_job(tasks)
    script = {f"BERTH_SCRIPT_{number}": "x" * 96 * 1024 for number in range(10)}
    assert subprocess.run(["/bin/true"], env=env | script, check=False).returncode == 0
    assert env.get(LEFT_OUT, "") == without
    assert env["PAI_TASK_ROLE_TASK_COUNT_train"] == str(tasks)


@pytest.mark.django_db
def test_an_event_says_once_what_the_tasks_go_without(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    node = world.node("gpu01", gpus=2)
    monkeypatch.setattr(variables, "LONGEST", 10)
    job = world.submit(instances=2)
    world.cycle()
    specs = [node.spec(order) for order in node.desired().orders]
    wanted = "PAI_TASK_ROLE_INSTANCES PAI_TASK_ROLE_worker_HOST_LIST"
    assert [one.env[LEFT_OUT] for one in specs] == [wanted, wanted]
    (event,) = JobEvent.objects.filter(job=job, code="hint", data__says="left_out")
    assert event.message.startswith("Its tasks go without PAI_TASK_ROLE_INSTANCES, PAI_TASK_ROLE_worker_HOST_LIST: ")
    with override("zh-hans"):
        assert worded(event.message).startswith("其任务没有 PAI_TASK_ROLE_INSTANCES")
