"""NNI's own training service for OpenPAI, which people tune their models with, against the portal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from portal.job_file.model import JobSpec
from portal.jobs.models import Job
from portal.storages.services.storages import storage_create
from tests.integration.openpai.conftest import Pai
from tests.support.cluster.world import World
from tests.support.people.live_web import live_web
from tests.support.run.waiting import wait_until
from tests.support.services import openpai_nni
from tests.support.services.processes import free_port

if TYPE_CHECKING:
    from tests.support.services.openpai_nni import Trials

pytestmark = [pytest.mark.nni, pytest.mark.django_db(transaction=True)]


def config(host: str, token: str, home: Path) -> dict[str, Any]:
    """As NNI's manager hands it to the training service."""
    (home / "code").mkdir()
    (home / "code" / "train.py").write_text("print('trained')\n")
    return {
        "platform": "openpai", "host": f"http://{host}", "username": "alice", "token": token,
        "trialCommand": "python3 train.py", "trialCodeDirectory": str(home / "code"), "trialGpuNumber": 1,
        "trialCpuNumber": 1, "trialMemorySize": "1 gb", "dockerImage": "busybox:latest", "virtualCluster": "vision",
        "storageConfigName": "data", "localStorageMountPoint": str(home / "mounted"),
        "containerStorageMountPoint": "/mnt/data", "nniManagerIp": "127.0.0.1", "debug": True,
    }  # fmt: skip


def status(nni: Trials, trial: str) -> str:
    told: str = nni.asked("show", trial)["status"]
    return told


def test_trials_are_submitted_with_their_storage_followed_and_stopped(tmp_path: Path) -> None:
    world = World()
    node = world.node("gpu01", gpus=1, root="/mnt/data")
    storage_create(name="data", root="/mnt/data", vcs=[world.vc], must_be_mount=False, now=world.now, actor="root")
    token = Pai(world.user).token
    with (
        live_web() as web,
        openpai_nni.trials(config(web.host, token, tmp_path), home=tmp_path, port=free_port()) as nni,
    ):
        first, second = nni.asked("submit"), nni.asked("submit")
        wait_until(lambda: Job.objects.count() == 2, "NNI to submit")
        job = Job.objects.get(name=first["paiJobName"])
        spec = JobSpec.from_json(job.spec)
        assert (spec.vc, spec.gpu_count) == ("vision", 1)
        world.settle()
        wait_until(lambda: status(nni, first["id"]) == "RUNNING", "the first trial to run")
        assert status(nni, second["id"]) == "WAITING"
        (order,) = node.desired().orders
        assert [mount.target for mount in node.spec(order).mounts] == ["/mnt/data"]
        nni.asked("cancel", second["id"])
        wait_until(
            lambda: status(nni, second["id"]) == "USER_CANCELED", "the second trial to be stopped", deadline_s=30
        )
        node.finish()
        world.settle()
        wait_until(lambda: status(nni, first["id"]) == "SUCCEEDED", "the first trial to end")
    assert (tmp_path / "mounted" / "berth" / "nni-code" / "train.py").exists()
