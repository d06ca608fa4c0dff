"""Which disk is watched: with containerd's store images and containers fill another one than the Engine's data folder
is on. Each is a small file system of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from nodes.agent.check import findings
from nodes.agent.check.finding import Finding, Verdict
from nodes.agent.clock import SystemClock
from nodes.agent.disk.guard import DiskGuard, DiskLimits
from nodes.agent.hardware.gpus.simulated import SimulatedBackend
from nodes.agent.hardware.gpus.suspension import Suspension
from nodes.agent.hardware.inventory import InventoryReader
from nodes.agent.runtimes.docker.folders import disk_folder, image_folder
from tests.support.cluster.scripted_runtime import CONTAINERD, GRAPH_DRIVER, ScriptedNode, stored

DISK_MB = 8
IMAGE = f"sha256:{'a' * 64}"


@pytest.fixture
def mounted() -> Iterator[Callable[[Path], Path]]:
    """Makes a folder with a disk of its own; only root may."""
    with ExitStack() as ended:

        def made(folder: Path) -> Path:
            folder.mkdir(parents=True)
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=755", "small", str(folder)], check=True
            )
            ended.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=True)
            return folder

        yield made


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ScriptedNode]:
    with closing(ScriptedNode(tmp_path / "state", store=CONTAINERD, root=str(tmp_path / "data"))) as node:
        node.images = [stored("team/tool:1", IMAGE)]
        node.registry = {"team/tool:1": IMAGE}
        node.image("team/tool:1")
        yield node


def filled(folder: Path, percent_free: int) -> Path:
    path = folder / "filler"
    path.write_bytes(b"\0" * ((DISK_MB << 20) * (100 - percent_free) // 100))
    return path


def guard_of(node: ScriptedNode, **limits: Any) -> DiskGuard:
    return DiskGuard(
        runtime=node.runtime, limits=DiskLimits(**limits), state=node.folder, folders={}, wanted=set,
        layers=lambda taken: None, graces=dict, changed=lambda at_once: None, clock=SystemClock(), every_s=60,
    )  # fmt: skip


def told_free_mb(node: ScriptedNode) -> int:
    gpus = SimulatedBackend("1xA100-80GB", node="gpu01", held=dict)
    suspension = Suspension(gpus, node.runtime, 0)
    reader = InventoryReader(state=node.folder, runtime=node.runtime, gpus=gpus, suspension=suspension)
    return reader.read().disk_free_mb


def checked(node: ScriptedNode) -> Finding:
    told = {
        "BERTH_NODE_STATE_DIR": str(node.folder), "BERTH_NODE_GPUS": "simulated:1xA100-80GB",
        "BERTH_NODE_DOCKER_URL": node.engine.url,
    }  # fmt: skip
    return next(line for line in findings([], told) if line.name == "disk")


@pytest.mark.docker  # as root, who may mount
@pytest.mark.parametrize("own", [False, True], ids=["the server's containerd", "a containerd of the Engine's own"])
def test_containerds_disk_is_watched_told_checked_and_cleaned_where_images_lie_there(
    node: ScriptedNode, tmp_path: Path, mounted: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    mounted(tmp_path / "data")
    containerd = mounted(tmp_path / "data/containerd/daemon" if own else tmp_path / "containerd")
    if not own:
        monkeypatch.setattr("nodes.agent.runtimes.docker.folders.CONTAINERD", containerd)
    guard = guard_of(node, clean_percent=0.5, full_percent=0.1)
    guard.look()
    assert (guard.state.full, node.removed) == (False, [])
    filled(containerd, 0)
    guard.look()
    assert guard.state.full
    assert node.removed, "images, which lie there"
    assert told_free_mb(node) == 0
    line = checked(node)
    assert (line.verdict, line.text) == (Verdict.FAILED, f"0 % of 0 GB free at {containerd}")


@pytest.mark.docker  # as root, who may mount
def test_a_full_data_folder_closes_the_node_and_costs_no_image_that_lies_on_another_disk(
    node: ScriptedNode, tmp_path: Path, mounted: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, containerd = mounted(tmp_path / "data"), mounted(tmp_path / "containerd")
    monkeypatch.setattr("nodes.agent.runtimes.docker.folders.CONTAINERD", containerd)
    filled(data, 0)
    guard = guard_of(node, clean_percent=0.5, full_percent=0.1)
    guard.look()
    assert (guard.state.full, node.removed, told_free_mb(node)) == (True, [], 0)
    assert checked(node).text == f"0 % of 0 GB free at {data}"
    node.store = GRAPH_DRIVER
    guard.look()
    assert node.removed, "by a graph driver they lie here"


def test_a_folder_that_is_not_there_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of an agent in a container, and of one whose Engine keeps images by a graph driver."""
    monkeypatch.setattr("nodes.agent.runtimes.docker.folders.CONTAINERD", tmp_path / "containerd")
    info = {"DriverStatus": CONTAINERD, "DockerRootDir": str(tmp_path / "data")}
    assert (disk_folder(info), image_folder(info)) == (str(tmp_path / "data"), str(tmp_path / "data"))
    (tmp_path / "containerd").mkdir()
    assert image_folder(info) == str(tmp_path / "containerd")
    assert image_folder(info | {"DriverStatus": GRAPH_DRIVER}) == str(tmp_path / "data")
    (tmp_path / "data/containerd/daemon").mkdir(parents=True)
    assert image_folder(info) == str(tmp_path / "data/containerd/daemon")
