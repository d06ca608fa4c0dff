"""The embedded stack's own node: by the key that lies beside it, whatever its database holds."""

from pathlib import Path

import pytest
from django.utils import timezone

from nodes.protocol.envelope import NodeKey
from portal.accounts.models import AuditEntry
from portal.embedded.__main__ import LocalNode, told
from portal.embedded.options import ELSEWHERE, Options
from portal.embedded.seed import jobs_folder, seed
from portal.hardware.models import Node
from portal.jobs.models import Job, TaskAttempt
from portal.joining.services.acceptance import node_set_cpu_tasks
from portal.storages.models import Storage
from portal.teams.models import VirtualCluster
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db


def test_a_node_whose_state_folder_was_lost_goes_on_by_its_new_key_and_its_tasks_end_as_lost(tmp_path: Path) -> None:
    """Such as after a restore into a new data folder."""
    world = World()
    node = world.node("vm", gpus=4, root=str(tmp_path))
    job = world.submit(gpu=1)
    world.settle()
    attempt = TaskAttempt.objects.get(task__job=job)
    old, new = node.key, NodeKey.generate()

    def started() -> bool:
        now = timezone.now()
        return seed(node_name="vm", node_key=new.public, jobs_folder=tmp_path / "jobs", now=now).new_key

    assert started()
    assert not node.report(), "what the old key signs is refused"
    node.key, node.containers = new, {}
    assert node.report()
    attempt.refresh_from_db()
    assert attempt.lost_at is not None
    world.settle()
    assert Job.objects.get(pk=job.pk).attempts.count() == 2, "it starts again"
    assert not started(), "the next start finds the key that it has"
    entry = AuditEntry.objects.get(action="node.key")
    assert (entry.target, entry.before, entry.after) == ("vm", {"public_key": old.public}, {"public_key": new.public})


def test_its_own_node_takes_tasks_without_gpus_until_somebody_says_otherwise(tmp_path: Path) -> None:
    key = NodeKey.generate()

    def started() -> None:
        seed(node_name="vm", node_key=key.public, jobs_folder=tmp_path / "jobs", now=timezone.now())

    started()
    node = ScriptedNode("vm", key=key.secret, accept=False)
    node.report()
    assert node.row.cpu_tasks
    node_set_cpu_tasks(node=node.row, cpu_tasks=False, actor="admin", now=timezone.now())
    started()
    node.report()
    assert not node.row.cpu_tasks


def test_a_node_of_another_name_keeps_its_key(tmp_path: Path) -> None:
    world = World()
    there = set(VirtualCluster.objects.values_list("name", flat=True))
    other = world.node("gpu01", gpus=1)
    key = NodeKey.generate().public
    done = seed(node_name="vm", node_key=key, jobs_folder=tmp_path / "jobs", now=timezone.now())
    assert not done.new_key
    assert set(VirtualCluster.objects.values_list("name", flat=True)) - there == {"default", "research"}
    assert dict(Node.objects.values_list("name", "public_key")) == {"gpu01": other.key.public, "vm": key}


def test_where_jobs_do_not_get_through_to_the_data_folder_their_folders_lie_elsewhere_and_stay_there(
    tmp_path: Path,
) -> None:
    data = tmp_path / "closed" / "data"
    data.mkdir(parents=True)
    data.parent.chmod(0o700)
    assert jobs_folder(data=data, as_others=False) == data / "jobs"
    chosen = jobs_folder(data=data, as_others=True)
    assert chosen.parent == ELSEWHERE
    Storage.objects.create(name="jobs", root=str(chosen), jobs=True)
    assert jobs_folder(data=data, as_others=True) == jobs_folder(data=data, as_others=False) == chosen


def test_the_agent_is_told_what_the_environment_says_but_what_is_the_stacks_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {
        "BERTH_NODE_RACK": "r7", "BERTH_NODE_MOUNT_ROOTS": "/srv/a:/srv/b", "BERTH_NODE_DISK_CLEAN": "all",
        "BERTH_NODE_PORTAL_PUBLIC_KEY": "another", "BERTH_NODE_PORTAL_PUBLIC_KEY_FILE": "/etc/another",
        "BERTH_NODE_CLUSTER": "another",
    }  # fmt: skip
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    options = Options(bind="127.0.0.1", port=80, data=tmp_path, docker_url=None, gpus="demo")
    node = LocalNode("vm", "", tmp_path / "node", tmp_path / "jobs", "lab", "key")
    found = told(node.environment(options))
    assert found["BERTH_NODE_MOUNT_ROOTS"] == f"{tmp_path}/jobs:/srv/a:/srv/b"
    assert (found["BERTH_NODE_RACK"], found["BERTH_NODE_DISK_CLEAN"]) == ("r7", "all")
    assert (found["BERTH_NODE_CLUSTER"], found["BERTH_NODE_PORTAL_PUBLIC_KEY"]) == ("lab", "key")
    assert "BERTH_NODE_PORTAL_PUBLIC_KEY_FILE" not in found
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert told(node.environment(options))["BERTH_NODE_HOME_DIR"] == f"{tmp_path}/node/homes", "nobody else's"
