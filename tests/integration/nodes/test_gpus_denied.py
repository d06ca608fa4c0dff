"""A running container that may not open its GPUs any more, as after `systemctl daemon-reload`: its log says so."""

from __future__ import annotations

import ctypes
import os
import platform
import stat
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodes.agent.attempts.attempt import GPUS_DENIED
from nodes.agent.runtimes.cgroups import cgroup_denies_gpus
from nodes.protocol.names import log_stream
from nodes.protocol.states import ContainerState, Phase
from tests.support.cluster.memory_runtime import Backlog
from tests.support.cluster.supervised_node import SPECS, Node, desired, in_state, order, wait_for
from tests.support.run.waiting import wait_until
from tests.support.services.redis_server import RedisServer

SPEC = SPECS[0]


def times_told(server: RedisServer) -> int:
    with server.client() as client:
        entries: Any = client.xrange(log_stream("gpu01", SPEC.attempt))
    return b"".join(fields[b"data"] for _, fields in entries).decode("latin-1").count(GPUS_DENIED)


def test_gpus_that_are_taken_from_a_running_container_are_told_in_its_log(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    node = Node(folder=tmp_path)
    node.redis_url, node.runtime.output = redis_server.url, Backlog
    with node.life() as supervisor:
        supervisor.take(desired(1, order(SPEC, Phase.RUN)))
        wait_for(supervisor, SPEC, in_state(ContainerState.RUNNING))
        running = node.runtime.containers[SPEC.attempt]
        assert times_told(redis_server) == 0
        node.runtime.containers[SPEC.attempt] = replace(running, gpus_denied=True)
        supervisor.wake(SPEC.attempt)
        wait_until(lambda: times_told(redis_server) == 1, "the line in the log")
        looked = node.runtime.looks

        def twice_more() -> bool:
            supervisor.wake(SPEC.attempt)
            return node.runtime.looks > looked + 2

        wait_until(twice_more, "two more looks")
        assert times_told(redis_server) == 1


UNIFIED = next((place for place in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
                if (place / "cgroup.procs").exists() and (place / "cgroup.controllers").exists()), None)  # fmt: skip
BPF_CALL = {"x86_64": 321, "aarch64": 280}.get(platform.machine())


@pytest.mark.skipif(os.geteuid() != 0 or UNIFIED is None or BPF_CALL is None, reason="makes a cgroup of version 2")
def test_where_the_kernel_lists_no_devices_a_process_of_ours_tries_in_the_containers_cgroup(tmp_path: Path) -> None:
    assert UNIFIED is not None
    control, group = tmp_path / "nvidiactl", UNIFIED / f"berth-test-{os.getpid()}"
    os.mknod(control, 0o600 | stat.S_IFCHR, os.makedev(195, 255))
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text(f"0::/{group.name}\n")

    def denied() -> bool:
        return cgroup_denies_gpus(7, proc=tmp_path, root=group.parent, node=control)

    assert not denied(), "a container that is gone"
    group.mkdir()
    try:
        assert not denied(), "no driver is there; the cgroup allows it"
        refuse_devices(group)
        assert denied()
        assert not cgroup_denies_gpus(7, proc=tmp_path, root=group.parent, node=tmp_path / "none"), "no GPU of NVIDIA's"
    finally:
        group.rmdir()


def refuse_devices(group: Path) -> None:
    """What systemd does to the cgroup of a container whose devices it does not know: a program of the kernel's."""
    refusal = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xB7, 0, 0, 0, 0x95, 0, 0, 0))  # r0 = 0; exit
    license = ctypes.create_string_buffer(b"GPL")
    program = bpf(5, struct.pack("<IIQQ", 15, 2, ctypes.addressof(refusal), ctypes.addressof(license)))
    place = os.open(group, os.O_RDONLY)
    bpf(8, struct.pack("<IIII", place, program, 6, 0))
    os.close(place)
    os.close(program)


def bpf(command: int, told: bytes) -> int:
    attributes = ctypes.create_string_buffer(told, 128)
    answer: int = ctypes.CDLL(None, use_errno=True).syscall(BPF_CALL, command, attributes, 128)
    assert answer >= 0, os.strerror(ctypes.get_errno())
    return answer
