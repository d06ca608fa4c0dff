"""What only real containers show: profiles, limits, images, ports, signals through init, an Engine that goes away."""

from __future__ import annotations

import json
import shutil
import socket
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from nodes.agent.runtimes.docker.logs import ENDED_UNSEEN
from nodes.agent.runtimes.docker.lost_exits import STATUS_LOST
from nodes.protocol import wordings
from nodes.protocol.messages import ImageAuth, Limits
from nodes.protocol.names import container_name
from nodes.protocol.states import Cause, ContainerState, Phase, StopReason
from tests.support.cluster.portal_side import PortalSide, spec_of
from tests.support.run.waiting import wait_until
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.processes import free_port
from tests.support.services.registry import image_of

pytestmark = pytest.mark.docker

TRAINER = """
import os, signal, sys, time
def save(*_):
    time.sleep(0.5)
    print("saving", flush=True)
    open(os.environ["BERTH_JOB_DIR"] + "/saved", "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True:
    time.sleep(1)
"""

_ELF_MACHINE = 18
"""Where a program says for which processors it is; none are of the number that stands there below."""
OF_OTHER_PROCESSORS = Path("/bin/busybox").read_bytes()[:_ELF_MACHINE] + b"\xfe\xfe" + b"\0" * 4096


@pytest.fixture(scope="module")
def runtime() -> str:
    return "docker"


@pytest.fixture
def engine(running_docker: DockerEngine) -> Iterator[DockerEngine]:
    """The Engine under the agent, running again after the test."""
    yield running_docker
    if not running_docker.answers():
        running_docker.restart()


def output(portal: PortalSide, script: str, **changes: object) -> str:
    attempt = portal.run(script, **changes)
    portal.wait_end(attempt)
    return portal.output(attempt)


def cause(portal: PortalSide, script: str, **changes: object) -> Cause:
    ended = portal.wait_end(portal.run(script, **changes))
    assert ended.exit is not None
    assert ended.exit.message
    return ended.exit.cause


# ---------------------------------------------------------------- who the task is


def test_a_user_has_a_name_a_home_and_a_working_folder_that_are_writable(portal: PortalSide) -> None:
    script = 'id; echo "$HOME $USER"; touch ~/x ./y; pwd; grep -c root /etc/passwd'
    lines = output(portal, script, groups=(6000,)).splitlines()
    assert lines[0].startswith("uid=5000(alice) gid=5000(alice) groups=")
    assert "6000" in lines[0]
    assert lines[1:] == ["/home/alice alice", "/workspace", "1"]


def test_a_user_has_no_rights_of_root(portal: PortalSide) -> None:
    script = "grep -E 'Cap(Eff|Bnd)|NoNewPrivs' /proc/self/status; touch /etc/x 2>/dev/null || echo refused"
    assert output(portal, script).split() == [
        *("CapEff:", "0000000000000000", "CapBnd:", "0000000000000000", "NoNewPrivs:", "1"),
        "refused",
    ]


def test_root_has_dockers_rights_less_raw_network_and_devices(portal: PortalSide) -> None:
    bounds = int(output(portal, "id -u; grep CapBnd /proc/self/status", profile="root").split()[-1], 16)
    net_raw, mknod, chown = 13, 27, 0
    assert [bool(bounds >> bit & 1) for bit in (net_raw, mknod, chown)] == [False, False, True]


def test_a_setuid_program_that_root_leaves_in_a_storage_counts_neither_on_the_server_nor_after_a_restart(
    portal: PortalSide,
) -> None:
    """`id` in its folder as root in a container leaves it; on the server the job's user starts it."""
    folder, mounts = portal.shared()
    folder.mkdir()
    folder.chmod(0o755)
    program = Path(shutil.copy("/usr/bin/id", folder / "trap"))
    program.chmod(0o755)
    output(portal, "chown 0:0 /job/trap; chmod 4755 /job/trap", profile="root", mounts=mounts)
    assert (program.stat().st_uid, program.stat().st_mode & stat.S_ISUID) == (0, stat.S_ISUID)

    def runs_as() -> str:
        return subprocess.run([program, "-u"], user=5000, check=True, capture_output=True, text=True).stdout.strip()

    assert runs_as() == "5000"
    portal.agent.stop()
    portal.start()
    output(portal, "true", profile="root", mounts=mounts)
    stacked = [line for line in Path("/proc/self/mounts").read_text().splitlines() if f" {portal.storage} " in line]
    assert (runs_as(), len(stacked)) == ("5000", 1)


# ---------------------------------------------------------------- signals


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("alone", "python3 -c '{program}'"),
        ("in a pipe", "python3 -c '{program}' | cat"),
        ("under timeout", "timeout 600 python3 -c '{program}' | cat"),
    ],
    ids=["alone", "in a pipe", "under timeout"],
)
def test_a_stop_reaches_a_trainer_in_the_middle_of_a_script(
    portal: PortalSide, python_image: str, name: str, line: str
) -> None:
    job, mounts = portal.shared()
    script = f"echo before\n{line.format(program=TRAINER)}\necho after"
    attempt = portal.run(script, image=python_image, mounts=mounts, job_dir="/job")
    wait_until(lambda: "ready" in portal.output(attempt), "the trainer", deadline_s=60)
    portal.stop(attempt)
    ended = portal.wait_end(attempt)
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.code, ended.exit.stop_reason) == (Cause.STOPPED, 143, StopReason.USER)
    assert (job / "saved").exists()
    assert portal.output(attempt).splitlines()[:2] == ["before", "ready"]
    assert "saving" in portal.output(attempt)
    assert "after" not in portal.output(attempt)


def test_a_notice_is_out_of_the_tasks_reach_even_as_root(portal: PortalSide) -> None:
    tries = ["echo x >/run/berth/notice", "rm -rf /run/berth", "mkdir /run/berth/more", "umount /run/berth"]
    script = "; ".join(f"({one}) 2>/dev/null && echo reached" for one in tries) + '; echo "$BERTH_NOTICE_FILE"'
    assert output(portal, script, profile="root") == "/run/berth/notice\n"


# ---------------------------------------------------------------- limits and causes


def test_a_task_that_uses_too_much_memory_ends_with_that_cause(portal: PortalSide) -> None:
    limits = Limits(cpu_milli=500, memory_mb=32, shm_mb=8, pids=64)
    assert cause(portal, "tail /dev/zero", limits=limits) is Cause.OOM
    ended = portal.wait_end(portal.run("tail /dev/zero || exit 3", limits=limits))
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.code, ended.exit.oom_seen) == (Cause.EXITED, 3, True)


def test_shared_memory_processes_and_cpus_are_limited(portal: PortalSide) -> None:
    limits = Limits(cpu_milli=500, memory_mb=256, shm_mb=16, pids=64)
    attempt = portal.run("df -k /dev/shm | tail -1", limits=limits)
    portal.wait_end(attempt)
    assert portal.output(attempt).split()[1] == str(16 * 1024)


def test_a_command_that_does_not_exist_fails_as_in_a_shell(portal: PortalSide) -> None:
    ended = portal.wait_end(portal.run("nowhere_such_command"))
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.code) == (Cause.EXITED, 127)


def test_a_port_that_somebody_else_listens_on_is_the_nodes_fault(portal: PortalSide) -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert cause(portal, "true", network="host", ports={"http": (port,)}) is Cause.PORT_TAKEN


def test_a_port_of_a_bridged_task_answers_on_the_node(portal: PortalSide) -> None:
    port = free_port()
    attempt = portal.run(f"echo hello | nc -l -p {port}", ports={"http": (port,)})
    portal.wait_state(attempt, ContainerState.RUNNING)

    def answer() -> str:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as client:
            return client.recv(100).decode()

    assert wait_until(lambda: _quietly(answer), "the task's answer") == "hello\n"


def _quietly(answer: object) -> str:
    try:
        return str(answer())  # type: ignore[operator]
    except OSError:
        return ""


# ---------------------------------------------------------------- images


def test_an_image_whose_registry_is_nowhere_is_away(portal: PortalSide) -> None:
    assert cause(portal, "true", image="127.0.0.1:1/nowhere:1") is Cause.IMAGE_AWAY


@pytest.mark.parametrize(
    ("name", "shell", "expected"),
    [("bare", None, Cause.NO_SHELL), ("foreign", OF_OTHER_PROCESSORS, Cause.IMAGE_PLATFORM)],
)
def test_an_image_without_a_shell_that_runs_here_ends_with_that_cause(
    portal: PortalSide, engine: DockerEngine, name: str, shell: bytes | None, expected: Cause
) -> None:
    with engine.client() as client:
        image_of(client, f"{name}:1", {"filler": b"x"} if shell is None else {"bin/sh": shell})
    assert cause(portal, "true", image=f"{name}:1") is expected


def test_a_login_goes_to_its_own_registry_only(portal: PortalSide) -> None:
    auth = ImageAuth(registry="registry.example", username="alice", password="hunter2")
    assert cause(portal, "true", auth=auth) is Cause.INVALID


def test_an_image_that_the_submitter_may_not_have_is_not_taken_from_the_cache(portal: PortalSide) -> None:
    auth = ImageAuth(registry="127.0.0.1:1", username="alice", password="hunter2")
    portal.tag("busybox:latest", "127.0.0.1:1/private:1")
    assert cause(portal, "true", image="127.0.0.1:1/private:1", auth=auth) is Cause.IMAGE_AWAY


def test_another_image_than_the_other_tasks_run_is_a_mismatch(portal: PortalSide) -> None:
    assert cause(portal, "true", digest="sha256:" + "0" * 64) is Cause.IMAGE_MISMATCH


def test_a_container_is_made_anew_for_another_digest_and_kept_for_the_same(
    portal: PortalSide, python_image: str
) -> None:
    spec = spec_of("echo hello")
    attempt = portal.order(spec, Phase.PREPARE)
    first = portal.wait_state(attempt, ContainerState.PREPARED)
    assert first.digest is not None
    same = replace(spec, digest=first.digest)
    portal.order(same, Phase.PREPARE)
    kept = portal.wait(attempt, lambda c: c.spec_hash == portal.orders[attempt].spec_hash)
    assert kept.container == first.container
    portal.tag(python_image, "moved:1")
    moved = replace(spec, image="moved:1", digest=portal.image_id("moved:1"))
    portal.order(moved, Phase.PREPARE)
    made = portal.wait(attempt, lambda c: c.spec_hash == portal.orders[attempt].spec_hash)
    assert (made.digest, made.container == first.container) == (moved.digest, False)


# ---------------------------------------------------------------- GPUs


def test_simulated_gpus_ask_docker_for_no_device(portal: PortalSide) -> None:
    attempt = portal.run("echo $NVIDIA_VISIBLE_DEVICES; sleep 600", gpus=(portal.gpu(0),))
    portal.wait(attempt, lambda c: c.log_end > 0)
    with portal.docker() as client:
        details = client.api.inspect_container(container_name(attempt))
    assert not details["HostConfig"]["DeviceRequests"]
    assert portal.output(attempt) == "void\n"


# ---------------------------------------------------------------- secrets, other people's containers


def test_nothing_secret_stands_in_labels_or_command(portal: PortalSide) -> None:
    attempt = portal.run("echo hunter2; sleep 600", env={"TOKEN": "hunter2"})
    portal.wait_state(attempt, ContainerState.RUNNING)
    with portal.docker() as client:
        details = client.api.inspect_container(container_name(attempt))
    shown = {key: details["Config"][key] for key in ("Labels", "Cmd", "Entrypoint", "Hostname")}
    assert "hunter2" not in json.dumps(shown)


def test_a_container_of_somebody_else_is_neither_reported_nor_touched(portal: PortalSide) -> None:
    with portal.docker() as client:
        other = client.containers.create("busybox:latest", ["sleep", "600"], labels={"berth.cluster": "another"})
        other.start()
        portal.wait_end(portal.run("true"))
        assert len(portal.reports[-1].containers) == 1
        other.reload()
        assert other.status == "running"
        other.remove(force=True)


def test_a_container_that_somebody_removed_has_vanished(portal: PortalSide) -> None:
    attempt = portal.run("sleep 600")
    portal.wait_state(attempt, ContainerState.RUNNING)
    with portal.docker() as client:
        client.api.remove_container(container_name(attempt), force=True)
    ended = portal.wait_end(attempt)
    assert ended.exit is not None
    assert ended.exit.cause in (Cause.VANISHED, Cause.SIGNALLED)


# ---------------------------------------------------------------- an Engine that goes away


def test_a_task_runs_on_while_its_engine_is_dead_and_its_lines_follow(portal: PortalSide, engine: DockerEngine) -> None:
    """An Engine that is killed takes with it what it has read of the pipe and not yet written: a line or two here."""
    script = "i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo line $i; sleep 0.02; done"
    attempt = portal.run(script)
    portal.wait(attempt, lambda c: c.log_end > 500)
    engine.kill()
    engine.start()
    ended = portal.wait_end(attempt, deadline_s=60)
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.code) == (Cause.EXITED, 0)
    shown = [int(line.removeprefix("line ")) for line in portal.output(attempt).splitlines()]
    assert shown == sorted(set(shown))
    assert len(shown) >= 198
    assert shown[-1] == 200


@pytest.mark.parametrize("agent", ["watches", "is killed too"])
def test_a_log_says_that_its_end_may_be_missing_where_the_engine_was_away_when_the_task_ended(
    portal: PortalSide, engine: DockerEngine, agent: str
) -> None:
    """Docker reads what such a container printed meanwhile no more, when it comes back."""
    folder, mounts = portal.shared()
    there = mounts[0].target
    script = f"echo first; until [ -e {there}/go ]; do sleep 0.1; done; echo last; touch {there}/over; exit 3"
    attempt = portal.run(script, mounts=mounts)
    portal.wait(attempt, lambda c: c.log_end > 0)
    if agent == "is killed too":
        portal.agent.kill()
    engine.kill()
    (folder / "go").touch()
    wait_until((folder / "over").exists, "the task's last command")
    engine.start()
    if agent == "is killed too":
        portal.start()
    ended = portal.wait_end(attempt, deadline_s=60)
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.code) == (Cause.EXITED, 3)
    assert portal.text(attempt).splitlines() == ["first", ENDED_UNSEEN]


@pytest.mark.parametrize("wholly", [False, True])
def test_an_exit_status_that_the_engine_has_lost_is_not_the_programs(
    portal: PortalSide, engine: DockerEngine, wholly: bool
) -> None:
    folder, mounts = portal.shared()
    there = mounts[0].target
    attempt = portal.run(f"echo first; until [ -e {there}/go ]; do sleep 0.1; done", mounts=mounts)
    portal.wait(attempt, lambda c: c.log_end > 0)
    with engine.client() as client:
        container = client.containers.get(container_name(attempt))
    engine.kill()
    (folder / "go").touch()
    engine.forget_end(str(container.id), wholly=wholly)
    engine.start()
    ended = portal.wait_end(attempt, deadline_s=60)
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.code, ended.exit.message) == (Cause.ENGINE_FAULT, None, STATUS_LOST)


@pytest.mark.parametrize("then", [Phase.RUN, Phase.STOP])
def test_a_container_that_the_engine_has_begun_and_forgotten_neither_runs_twice_nor_on(
    portal: PortalSide, engine: DockerEngine, then: Phase
) -> None:
    folder, mounts = portal.shared()
    script = f"echo begun >>{mounts[0].target}/begun; while :; do date >{mounts[0].target}/alive; sleep 0.1; done"
    spec = spec_of(script, mounts=mounts)
    attempt = portal.order(spec, Phase.PREPARE)
    portal.wait_state(attempt, ContainerState.PREPARED)
    portal.agent.kill()
    with engine.client() as client:
        container = client.containers.get(container_name(attempt))
        container.start()
        container.reload()
        pid = container.attrs["State"]["Pid"]
    wait_until((folder / "alive").exists, "the task to run")
    engine.kill()
    engine.forget_start(str(container.id))
    engine.start()
    with engine.client() as client:
        assert client.containers.get(container_name(attempt)).status == "created", "as the Engine says"
    portal.start()
    portal.order(spec, then)

    ended = portal.wait_end(attempt, deadline_s=60)
    assert ended.exit is not None
    if then is Phase.RUN:
        assert (ended.exit.cause, ended.exit.message) == (Cause.ENGINE_FAULT, wordings.FORGOTTEN())
        assert not psutil.pid_exists(pid), "nothing of it runs"
    portal.end(attempt)
    wait_until(lambda: not psutil.pid_exists(pid), "it to be ended")
    assert (folder / "begun").read_text() == "begun\n"


def test_a_program_that_ends_well_as_soon_as_the_engine_is_back_has_ended_well(
    portal: PortalSide, engine: DockerEngine
) -> None:
    folder, mounts = portal.shared()
    attempt = portal.run(f"echo first; until [ -e {mounts[0].target}/go ]; do sleep 0.1; done", mounts=mounts)
    portal.wait(attempt, lambda c: c.log_end > 0)
    engine.restart()
    (folder / "go").touch()
    ended = portal.wait_end(attempt, deadline_s=60)
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.code) == (Cause.EXITED, 0)


def test_a_program_that_ends_with_255_has_failed_by_itself(portal: PortalSide) -> None:
    ended = portal.wait_end(portal.run("exit 255"))
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.code) == (Cause.EXITED, 255)


def test_a_log_is_whole_where_only_the_agent_was_away_when_the_task_ended(portal: PortalSide) -> None:
    folder, mounts = portal.shared()
    there = mounts[0].target
    script = f"echo first; until [ -e {there}/go ]; do sleep 0.1; done; echo last; touch {there}/over"
    attempt = portal.run(script, mounts=mounts)
    portal.wait(attempt, lambda c: c.log_end > 0)
    portal.agent.kill()
    (folder / "go").touch()
    wait_until((folder / "over").exists, "the task's last command")
    portal.start()
    portal.wait_end(attempt, deadline_s=60)
    assert portal.text(attempt).splitlines() == ["first", "last"]


def test_an_order_waits_for_an_engine_that_is_away(portal: PortalSide, engine: DockerEngine) -> None:
    engine.kill()
    attempt = portal.run("echo hello")
    waiting = portal.wait(attempt, lambda c: c.progress is not None)
    assert waiting.progress is not None
    assert waiting.progress.code == "engine"
    engine.start()
    portal.wait_end(attempt, deadline_s=60)
    assert portal.output(attempt) == "hello\n"
