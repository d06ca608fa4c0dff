"""What Docker is told for a spec: table of every line of "The container"."""

from __future__ import annotations

from typing import Any

import pytest
from docker.types import DeviceRequest, Ulimit

from nodes.agent.runtimes.docker.container_config import NodeFacts, container_options, cpu_list, entrypoint_told
from nodes.protocol.messages import ContainerSpec, Limits, Mount
from tests.support.cluster.portal_side import spec_of

FACTS = NodeFacts(cluster="berth", node="gpu01", notices="/notices")
TWO = ("GPU-1", "GPU-2")


def host(spec: ContainerSpec, facts: NodeFacts = FACTS) -> dict[str, Any]:
    return container_options(spec, "hash", "sha256:1", facts).host


def container(spec: ContainerSpec, facts: NodeFacts = FACTS) -> dict[str, Any]:
    return container_options(spec, "hash", "sha256:1", facts).container


def environment(facts: NodeFacts = FACTS, **changes: Any) -> dict[str, str]:
    env: dict[str, str] = container(spec_of("true", **changes), facts)["environment"]
    return env


def test_limits_reach_the_cgroup_without_swap() -> None:
    limits = Limits(cpu_milli=2500, memory_mb=1024, shm_mb=512, pids=8192)
    made = host(spec_of("true", limits=limits))
    assert made["nano_cpus"] == 2_500_000_000
    assert made["mem_limit"] == made["memswap_limit"] == 1024 << 20
    assert made["shm_size"] == 512 << 20
    assert made["pids_limit"] == 8192


def test_a_container_is_never_privileged_restarted_or_removed_by_docker() -> None:
    made = host(spec_of("true", profile="root"))
    assert made["privileged"] is False
    assert made["restart_policy"] == {"Name": "no"}
    assert made["auto_remove"] is False
    assert made["security_opt"] == ["no-new-privileges:true"]
    assert made["runtime"] == "runc"
    assert (made["ipc_mode"], made["cgroupns"], made["init"]) == ("private", "private", True)


def test_logs_are_kept_whole_by_docker_until_they_are_read() -> None:
    config = host(spec_of("true"))["log_config"]
    assert (config.type, config.config) == ("json-file", {"max-size": "256m", "max-file": "4", "mode": "blocking"})


@pytest.mark.parametrize(
    ("profile", "infiniband", "user", "drops", "adds"),
    [
        ("user", False, "5000:5000", ["ALL"], None),
        ("user", True, "5000:5000", ["ALL"], None),
        ("root", False, "0:0", ["NET_RAW", "MKNOD"], None),
        ("root", True, "0:0", ["NET_RAW", "MKNOD"], ["IPC_LOCK"]),
    ],
    ids=["user", "user with InfiniBand", "root", "root with InfiniBand"],
)
def test_a_profile_decides_user_and_capabilities(
    profile: str, infiniband: bool, user: str, drops: list[str], adds: list[str] | None
) -> None:
    limits = Limits(cpu_milli=500, memory_mb=256, shm_mb=64, pids=512, infiniband=infiniband)
    spec = spec_of("true", profile=profile, limits=limits, groups=(100, 101))
    made = host(spec)
    assert container(spec)["user"] == user
    assert made["cap_drop"] == drops
    assert made.get("cap_add") == adds
    assert made.get("group_add") == (["100", "101"] if profile == "user" else None)


@pytest.mark.parametrize(
    ("gpus", "facts", "expected"),
    [
        ((), FACTS, []),
        (TWO, NodeFacts(cluster="c", node="n", notices="/notices", simulated=True), []),
        (TWO, FACTS, [{"driver": "nvidia", "device_ids": list(TWO), "capabilities": [["gpu", "compute", "utility"]]}]),
        (
            TWO,
            NodeFacts(
                cluster="c",
                node="n",
                notices="/notices",
                cdi=frozenset({"nvidia.com/gpu=GPU-1", "nvidia.com/gpu=GPU-2"}),
            ),
            [{"driver": "cdi", "device_ids": ["nvidia.com/gpu=GPU-1", "nvidia.com/gpu=GPU-2"]}],
        ),
        (
            TWO,
            NodeFacts(cluster="c", node="n", notices="/notices", cdi=frozenset({"nvidia.com/gpu=GPU-1"})),
            [{"driver": "nvidia", "device_ids": list(TWO), "capabilities": [["gpu", "compute", "utility"]]}],
        ),
    ],
    ids=["no GPU", "simulated", "by the driver", "by CDI", "CDI knows only one of two"],
)
def test_gpus_are_asked_for_by_uuid(gpus: tuple[str, ...], facts: NodeFacts, expected: list[dict[str, Any]]) -> None:
    assert host(spec_of("true", gpus=gpus), facts)["device_requests"] == [DeviceRequest(**one) for one in expected]


@pytest.mark.parametrize(
    ("gpus", "simulated", "visible"),
    [((), False, "void"), (TWO, True, "void"), (TWO, False, None)],
    ids=["CPU task", "simulated GPUs", "real GPUs"],
)
def test_the_users_own_nvidia_variables_choose_nothing(
    gpus: tuple[str, ...], simulated: bool, visible: str | None
) -> None:
    facts = NodeFacts(cluster="berth", node="gpu01", notices="/notices", simulated=simulated)
    env = environment(facts, gpus=gpus, env={"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_X": "1", "LR": "0.1"})
    assert env.get("NVIDIA_VISIBLE_DEVICES") == visible
    assert "NVIDIA_X" not in env
    assert env["LR"] == "0.1"


def test_a_user_gets_a_home_and_a_name_and_root_keeps_the_images_own() -> None:
    assert environment()["HOME"] == "/home/alice"
    assert environment()["USER"] == "alice"
    assert environment(env={"HOME": "/mnt/home"})["HOME"] == "/mnt/home"
    assert "HOME" not in environment(profile="root")


@pytest.mark.parametrize(
    ("name", "inside"),
    [("alice", "alice"), ("a.b-c_1", "a.b-c_1"), ("root", "user5000"), ("a:b", "user5000"), ("../x", "user5000")],
)
def test_a_users_name_inside_is_one_that_linux_takes(name: str, inside: str) -> None:
    env = environment(user_name=name)
    assert (env["USER"], env["HOME"]) == (inside, f"/home/{inside}")


def test_a_bridged_task_is_named_after_its_role() -> None:
    assert container(spec_of("true", role="my_worker", index=3))["hostname"] == "my-worker-3"
    assert container(spec_of("true", network="host"))["hostname"] is None


@pytest.mark.parametrize(
    ("network", "ports", "bindings"),
    [("bridge", {"http": (20001, 20002)}, {20001: 20001, 20002: 20002}), ("host", {"http": (20001,)}, None)],
)
def test_ports_are_published_on_a_bridge_only(
    network: str, ports: dict[str, tuple[int, ...]], bindings: dict[int, int] | None
) -> None:
    made = host(spec_of("true", network=network, ports=ports))
    assert made["network_mode"] == network
    assert made["port_bindings"] == bindings


@pytest.mark.parametrize(
    ("near", "cpu_milli", "expected"),
    [
        ({"GPU-1": frozenset({0, 1, 2}), "GPU-2": frozenset({2, 3, 8})}, 4000, "0-3,8"),
        ({"GPU-1": frozenset({0, 1})}, 1000, None),
        ({"GPU-1": frozenset({0}), "GPU-2": frozenset({1})}, 4000, None),
        ({}, 1000, None),
    ],
    ids=["CPUs of both", "one GPU unknown", "too few CPUs near", "nothing known"],
)
def test_a_task_gets_the_cpus_near_its_gpus_where_they_are_known_and_enough(
    near: dict[str, frozenset[int]], cpu_milli: int, expected: str | None
) -> None:
    limits = Limits(cpu_milli=cpu_milli, memory_mb=256, shm_mb=64, pids=512)
    facts = NodeFacts(cluster="berth", node="gpu01", notices="/notices", cpus_of=near)
    assert host(spec_of("true", gpus=TWO, limits=limits), facts)["cpuset_cpus"] == expected


def test_limits_of_the_process_are_raised_where_the_engine_may() -> None:
    def names(facts: NodeFacts) -> dict[str, int | None]:
        ulimits: list[Ulimit] = host(spec_of("true"), facts)["ulimits"]
        return {one.name: one.hard for one in ulimits}

    assert names(FACTS) == {"memlock": -1, "stack": 64 << 20, "nofile": 1 << 20, "core": 0}
    own = NodeFacts(cluster="c", node="n", notices="/notices", raises_limits=False)
    assert names(own) == {"stack": 64 << 20, "core": 0}


def test_mounts_are_private_binds() -> None:
    mounts = (Mount(storage="data", root="/mnt/data", source="/mnt/data/sets", target="/data", read_only=True),)
    made, _ = host(spec_of("true", mounts=mounts))["mounts"]
    assert (made["Type"], made["Source"], made["Target"], made["ReadOnly"]) == ("bind", "/mnt/data/sets", "/data", True)
    assert made["BindOptions"] == {"Propagation": "rprivate"}


def test_each_attempts_notice_is_seen_and_not_written() -> None:
    spec = spec_of("true", attempt="a-1")
    (made,) = host(spec)["mounts"]
    assert (made["Source"], made["Target"], made["ReadOnly"]) == ("/notices/a-1", "/run/berth", True)
    assert environment()["BERTH_NOTICE_FILE"] == "/run/berth/notice"
    assert "BERTH_PEERS" not in environment()
    assert environment(env={"BERTH_PEERS": ""})["BERTH_PEERS"] == "/run/berth/peers"


def test_infiniband_devices_come_where_the_job_wants_and_the_node_has_them() -> None:
    limits = Limits(cpu_milli=500, memory_mb=256, shm_mb=64, pids=512, infiniband=True)
    facts = NodeFacts(cluster="berth", node="gpu01", notices="/notices", infiniband=True)
    assert host(spec_of("true", limits=limits), facts)["devices"] == ["/dev/infiniband:/dev/infiniband:rwm"]
    assert host(spec_of("true", limits=limits))["devices"] is None
    assert host(spec_of("true"), facts)["devices"] is None


def test_the_lease_is_named_by_its_path_inside_the_container() -> None:
    mount = Mount(storage="home", root="/mnt/home", source="/mnt/home/alice/jobs/7", target="/job")
    env = environment(mounts=(mount,), job_dir="/job", lease="/mnt/home/alice/jobs/7/.berth/lease")
    assert env["BERTH_LEASE"] == "/job/.berth/lease"
    assert env["BERTH_JOB_DIR"] == "/job"


def test_labels_and_name_find_the_container_again_and_hold_no_secret() -> None:
    spec = spec_of("echo hunter2", attempt="a-1", gpus=TWO, env={"TOKEN": "hunter2"})
    made = container(spec)
    assert made["name"] == "berth-a-1"
    assert made["labels"] == {
        "berth.cluster": "berth",
        "berth.node": "gpu01",
        "berth.job": "alice/hello#1",
        "berth.attempt": "a-1",
        "berth.task": "worker[0]",
        "berth.gpus": "GPU-1,GPU-2",
        "berth.spec": "hash",
    }
    assert "hunter2" not in str({**made, "environment": None})


@pytest.mark.parametrize(("cpus", "text"), [({0}, "0"), ({3, 1, 2, 7}, "1-3,7"), ({4, 2}, "2,4")])
def test_cpus_are_written_as_linux_lists_them(cpus: set[int], text: str) -> None:
    assert cpu_list(cpus) == text


@pytest.mark.parametrize(
    ("entrypoint", "told"),
    [
        (["/opt/nvidia/nvidia_entrypoint.sh"], True),
        (["/usr/bin/tini", "-g", "--", "/entry.sh"], True),
        (["/bin/sh", "-c", "exec server"], True),
        (["/bin/bash", "-c"], False),
        (["/usr/bin/tini", "--"], False),
        ([], False),
    ],
)
def test_an_entrypoint_that_is_more_than_a_shell_or_an_init_is_told(entrypoint: list[str], told: bool) -> None:
    assert bool(entrypoint_told(entrypoint)) is told
