"""What is read from the kernel's files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodes.agent.hardware.inventory import job_address
from nodes.agent.hardware.numa import cpus_near
from nodes.agent.runtimes.cgroups import (
    cgroup_container,
    cgroup_denies_gpus,
    cgroup_memory_fits,
    cgroup_memory_limit,
    cgroup_usage,
    machine_raises_limits,
)
from nodes.protocol.messages import GpuInfo


@pytest.mark.parametrize(("bounds", "raises"), [("000001ffffffffff", True), ("000001fffeffffff", False)])
def test_a_machine_without_the_right_to_raise_limits_is_known(tmp_path: Path, bounds: str, raises: bool) -> None:
    status = tmp_path / "status"
    status.write_text(f"Name:\tinit\nCapBnd:\t{bounds}\n")
    assert machine_raises_limits(status) is raises


def test_a_process_outside_of_containers_belongs_to_none_and_one_that_is_gone_uses_nothing() -> None:
    assert cgroup_container(os.getpid()) is None
    assert cgroup_container(2**30) is None
    assert cgroup_usage(2**30) is None


@pytest.mark.parametrize(
    ("cgroup", "listed", "denied"),
    [
        ("5:devices:/docker/1b", "c 1:3 rwm\nc 195:* rw\nc 195:255 rw\n", False),
        ("5:devices:/docker/1b", "a *:* rwm\n", False),
        ("5:devices:/docker/1b", "c 1:3 rwm\nc 136:* rwm\nb 195:0 m\n", True),
        ("5:devices:/docker/1b", None, False),
        ("0::/system.slice/docker-1b.scope", "c 1:3 rwm\n", False),
    ],
    ids=["its GPUs", "all devices", "after daemon-reload", "a list that is gone", "version 2, and no place to try"],
)
def test_a_container_that_may_not_open_its_gpus_is_known_by_the_kernels_list(
    tmp_path: Path, cgroup: str, listed: str | None, denied: bool
) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text(f"{cgroup}\n")
    folder = tmp_path / "devices" / "docker" / "1b"
    folder.mkdir(parents=True)
    if listed is not None:
        (folder / "devices.list").write_text(listed)
    assert cgroup_denies_gpus(7, proc=tmp_path, root=tmp_path) is denied


@pytest.mark.parametrize(
    ("numa", "text", "cpus"),
    [(0, "0-2,8\n", {0, 1, 2, 8}), (0, "5\n", {5}), (0, "\n", None), (1, "0\n", None), (None, "0\n", None)],
    ids=["spans", "one", "no CPU", "an unknown NUMA node", "a GPU without one"],
)
def test_the_cpus_near_a_gpu_are_those_of_its_numa_node(
    tmp_path: Path, numa: int | None, text: str, cpus: set[int] | None
) -> None:
    (tmp_path / "node0").mkdir()
    (tmp_path / "node0" / "cpulist").write_text(text)
    gpu = GpuInfo(uuid="GPU-1", index=0, model="A100", memory_mb=1, numa=numa)
    assert cpus_near([gpu], tmp_path) == ({} if cpus is None else {"GPU-1": cpus})


def test_an_address_that_is_set_is_kept_and_its_interface_found() -> None:
    assert job_address("127.0.0.1", "") == ("127.0.0.1", "lo")
    assert job_address("", "lo") == ("127.0.0.1", "lo")
    assert job_address("10.9.8.7", "ib0") == ("10.9.8.7", "ib0")


@pytest.mark.parametrize(
    ("cgroup", "folder", "stat", "limit"),
    [
        ("0::/docker/1b", "docker/1b", "anon 600\nfile 900\nshmem 300\n", "memory.max"),
        ("9:memory:/docker/1b", "memory/docker/1b", "total_rss 600\ntotal_cache 900\ntotal_shmem 300\n",
         "memory.limit_in_bytes"),
    ],
    ids=["version 2", "version 1, where swap is not counted"],
)  # fmt: skip
def test_a_memory_limit_is_set_and_fits_what_cannot_be_given_back(
    tmp_path: Path, cgroup: str, folder: str, stat: str, limit: str
) -> None:
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_text(f"{cgroup}\n")
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "memory.stat").write_text(stat)
    (tmp_path / folder / limit).write_text("1000")
    places = {"proc": tmp_path / "proc", "root": tmp_path}
    assert [cgroup_memory_fits(7, bytes, **places) for bytes in (900, 901)] == [False, True]
    cgroup_memory_limit(7, 4096, **places)
    assert (tmp_path / folder / limit).read_text() == "4096"
