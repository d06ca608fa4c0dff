"""An agent from its orders to its reports, on both runtimes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from nodes.agent.runtimes.process.runtime import ProcessRuntime
from nodes.protocol.envelope import Envelope, PortalKey, envelope_seal
from nodes.protocol.messages import Desired, Limits, Mount, encode
from nodes.protocol.names import container_name
from nodes.protocol.states import Cause, ContainerState, Phase, StopReason
from tests.integration.nodes.conftest import MakePortal
from tests.support.cluster.portal_side import COUNT, PROMISED_CPUS, PROMISED_GB, PortalSide, lines, spec_of
from tests.support.run.waiting import wait_until

FOR_EVER = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done"


# ---------------------------------------------------------------- the way of a task


def test_a_task_is_prepared_started_followed_to_its_end_and_removed(portal: PortalSide) -> None:
    spec = spec_of("echo hello; echo trouble >&2", gpus=(portal.gpu(0), portal.gpu(1)))
    attempt = portal.order(spec, Phase.PREPARE)
    prepared = portal.wait_state(attempt, ContainerState.PREPARED)
    assert prepared.started_ms is None
    assert prepared.gpus == spec.gpus
    assert prepared.digest
    portal.order(spec, Phase.RUN)
    ended = portal.wait_end(attempt)
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.code) == (Cause.EXITED, 0)
    assert sorted(portal.output(attempt).splitlines()) == ["hello", "trouble"]
    assert sorted(ended.exit.log_tail.splitlines()) == ["hello", "trouble"]
    assert ended.gpus == ()
    assert portal.states(attempt) == sorted(portal.states(attempt), key=list(ContainerState).index)
    portal.end(attempt)
    wait_until(lambda: portal.container(attempt) is None, "the attempt to leave the reports")


def test_an_agent_loads_nothing_of_a_portal_whose_settings_are_named_where_it_starts(portal: PortalSide) -> None:
    assert os.environ["DJANGO_SETTINGS_MODULE"], "as `make run` names them"
    libraries = Path(f"/proc/{portal.agent.pid}/maps").read_text()
    assert "hiredis" in libraries
    assert "psycopg" not in libraries


def test_a_task_that_fails_tells_its_status(portal: PortalSide) -> None:
    ended = portal.wait_end(portal.run("echo broken >&2\nexit 3"))
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.code, ended.exit.log_tail) == (Cause.EXITED, 3, "broken\n")


def test_who_hears_of_an_end_finds_the_log_whole(portal: PortalSide) -> None:
    attempt = portal.run("i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo line $i; done; exit 3")
    ended = portal.wait_state(attempt, ContainerState.TERMINATED)
    assert portal.output(attempt) == lines(2000)
    assert ended.log_complete
    assert ended.exit is not None
    assert ended.exit.log_tail.endswith("line 2000\n")


def test_an_order_to_run_prepares_first(portal: PortalSide) -> None:
    attempt = portal.run("echo hello")
    portal.wait_end(attempt)
    assert portal.output(attempt) == "hello\n"


def test_a_task_that_is_not_isolated_says_so_in_its_log_and_its_report(portal: PortalSide, runtime: str) -> None:
    attempt = portal.run("echo hello")
    ended = portal.wait_end(attempt)
    first = portal.text(attempt).splitlines()[0]
    expected = {
        "docker": ("docker, profile user", "hello"),
        "process": ("process (not isolated)", ProcessRuntime.notice),
    }
    assert (ended.isolation, first) == expected[runtime]


def test_every_line_of_a_fast_log_arrives_in_order(portal: PortalSide) -> None:
    attempt = portal.run(COUNT.format(lines=10_000, pause=""))
    portal.wait_end(attempt)
    assert portal.output(attempt) == lines(10_000)


def test_a_task_that_tells_its_secrets_has_asterisks_in_its_log(portal: PortalSide) -> None:
    tells = 'token=hunter2-hunter2; export token; set -x; echo "$token"; env | grep token; printf "$token" | base64'
    attempt = portal.run(tells, hidden=("hunter2-hunter2",))
    ended = portal.wait_end(attempt)
    assert ended.exit is not None
    for said in (portal.output(attempt), ended.exit.log_tail):
        assert f"+ echo {'*' * 15}\n" in said
        assert f"token={'*' * 15}\n" in said
        assert f"\n{'*' * 20}\n" in said
        assert "hunter2" not in said


# ---------------------------------------------------------------- stops


def test_a_stop_lets_the_task_save(portal: PortalSide) -> None:
    attempt = portal.run(FOR_EVER)
    portal.wait(attempt, lambda c: c.log_end > 0)
    portal.stop(attempt, message="preempted by prod/b#3 of team vision")
    ended = portal.wait_end(attempt)
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.stop_reason) == (Cause.STOPPED, StopReason.USER)
    assert ended.exit.message == "preempted by prod/b#3 of team vision"
    assert "saved" in portal.output(attempt).splitlines()
    assert "preempted by prod/b#3 of team vision\n" in portal.text(attempt)


def test_a_task_that_is_stopped_finds_why_and_until_when_before_it_hears_the_signal(portal: PortalSide) -> None:
    early = 'test -e "$BERTH_NOTICE_FILE" && echo early; echo ready'
    loop = "while :; do sleep 0.1; done"
    attempt = portal.run(f"trap 'cat \"$BERTH_NOTICE_FILE\"; exit 0' TERM; {early}; {loop}")
    portal.wait(attempt, lambda c: c.log_end > 0)
    before = int(time.time())
    portal.stop(attempt, grace_s=45, reason=StopReason.PREEMPTED, message="preempted by vision/b#3")
    portal.wait_end(attempt)
    output = portal.output(attempt)
    assert output.startswith("ready\n")
    told, _ = json.JSONDecoder().raw_decode(output[output.index("{") :])  # the shell may tell of its killed sleep
    assert (told["reason"], told["message"], told["grace_seconds"]) == ("preempted", "preempted by vision/b#3", 45)
    assert before + 45 <= told["deadline_unix"] <= time.time() + 45
    assert datetime.fromisoformat(told["deadline"]).timestamp() == told["deadline_unix"]


def test_a_task_that_ignores_the_stop_is_killed_after_its_grace(portal: PortalSide) -> None:
    attempt = portal.run("trap '' TERM; echo ready; while :; do sleep 0.1; done")
    portal.wait(attempt, lambda c: c.log_end > 0)
    began = time.monotonic()
    portal.stop(attempt, grace_s=1)
    ended = portal.wait_end(attempt)
    assert 1 <= time.monotonic() - began < 15
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.code, ended.exit.signal) == (Cause.STOPPED, 137, 9)


def test_what_a_task_leaves_behind_ends_with_it(portal: PortalSide) -> None:
    job, mounts = portal.shared()
    script = "(while :; do date +%s%N > $BERTH_JOB_DIR/alive; sleep 0.05; done) >/dev/null 2>&1 &\nsleep 0.3"
    portal.wait_end(portal.run(script, mounts=mounts, job_dir="/job"))
    last = (job / "alive").read_text()
    time.sleep(0.3)  # nothing can be waited for: it must stay as it is
    assert (job / "alive").read_text() == last


def test_a_task_stopped_before_its_start_never_runs(portal: PortalSide) -> None:
    spec = spec_of("echo hello")
    attempt = portal.order(spec, Phase.PREPARE)
    portal.wait_state(attempt, ContainerState.PREPARED)
    portal.stop(attempt)
    ended = portal.wait_end(attempt)
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.code, ended.started_ms) == (Cause.STOPPED, None, None)
    assert portal.output(attempt) == ""


def test_a_running_task_that_is_removed_is_ended(portal: PortalSide) -> None:
    attempt = portal.run("trap '' TERM; while :; do sleep 0.1; done")
    portal.wait_state(attempt, ContainerState.RUNNING)
    portal.end(attempt)
    wait_until(lambda: portal.container(attempt) is None, "the attempt to leave the reports")


# ---------------------------------------------------------------- orders that must not be obeyed


def test_an_older_list_changes_nothing(portal: PortalSide) -> None:
    attempt = portal.run("sleep 600")
    old = portal.desired()
    portal.wait_state(attempt, ContainerState.RUNNING)
    portal.stop(attempt, grace_s=1)
    portal.wait_state(attempt, ContainerState.TERMINATED)
    portal.send(replace(old, orders=()))
    portal.send(old)
    portal.end(attempt)
    wait_until(lambda: portal.container(attempt) is None, "the attempt to leave the reports")


def test_a_removed_attempt_is_not_brought_back_by_a_late_order(portal: PortalSide) -> None:
    job, mounts = portal.shared()
    attempt = portal.run("echo once >> $BERTH_JOB_DIR/runs", mounts=mounts, job_dir="/job")
    late = portal.desired()
    portal.wait_end(attempt)
    portal.end(attempt)
    wait_until(lambda: portal.container(attempt) is None, "the attempt to leave the reports")
    portal.agent.kill()
    portal.forget(attempt)
    portal.start()
    portal.send(late)  # the first list that the new agent sees may be an old one
    second = portal.run("echo second")
    portal.wait_end(second)
    assert portal.container(attempt) is None
    assert (job / "runs").read_text() == "once\n"


def test_orders_of_a_stranger_for_another_node_or_too_late_are_refused(portal: PortalSide) -> None:
    spec = spec_of("echo evil")
    attempt = portal.order(spec, Phase.PREPARE)
    portal.wait_state(attempt, ContainerState.PREPARED)
    run = replace(portal.desired(), generation=portal.generation + 1000)
    run = replace(run, orders=tuple(replace(order, phase=Phase.RUN) for order in run.orders))
    portal.post(portal.envelope(run, lives_s=-1))
    portal.post(_envelope(PortalKey.generate(), portal.name, run))
    portal.post(_envelope(portal.key, "another-node", run))
    portal.post(portal.envelope(replace(run, node="another-node")))
    portal.post("garbage")
    other = portal.run("echo hello")
    portal.wait_end(other)
    seen = portal.container(attempt)
    assert seen is not None
    assert (seen.state, seen.generation) == (ContainerState.PREPARED, portal.generation)


def _envelope(key: PortalKey, to: str, desired: Desired) -> str:
    expires = int((time.time() + 15) * 1000)
    return envelope_seal(key, Envelope("portal", to, "desired", expires, encode(desired).decode()))


def test_details_sealed_for_another_or_other_than_named_are_not_obeyed(portal: PortalSide) -> None:
    honest, other = spec_of("echo honest"), spec_of("echo other")
    attempt = portal.order(honest, Phase.RUN, send=False)
    order = portal.orders[attempt]
    portal.send(replace(portal.desired(), orders=(replace(order, spec=portal.sealed(other)),)))
    waiting = portal.wait(attempt, lambda c: c.progress is not None)
    assert waiting.progress is not None
    assert (waiting.state, waiting.progress.code) == (ContainerState.ACCEPTED, "spec")
    portal.send()
    portal.wait_end(attempt)
    assert portal.output(attempt) == "honest\n"


def test_the_nodes_policy_stands_above_an_order(portal: PortalSide) -> None:
    mount = Mount(storage="etc", root="/etc", source="/etc", target="/etc2")
    ended = portal.wait_end(portal.run("cat /etc2/shadow", mounts=(mount,)))
    assert ended.exit is not None
    assert (ended.exit.cause, ended.started_ms) == (Cause.REFUSED, None)


# ---------------------------------------------------------------- storages and the lease


@pytest.mark.root
def test_a_job_folder_is_made_for_the_tasks_user(portal: PortalSide) -> None:
    job, mounts = portal.shared()
    portal.wait_end(portal.run('echo result > "$BERTH_JOB_DIR/out"', mounts=mounts, job_dir="/job"))
    assert (job / "out").read_text() == "result\n"
    assert (job / "out").stat().st_uid == 5000


@pytest.mark.parametrize("profile", ["user", "root"])
def test_without_a_storage_for_it_the_job_folder_is_the_tasks_own(portal: PortalSide, profile: str) -> None:
    attempt = portal.run('cd "$BERTH_JOB_DIR" && echo result > out && cat out', job_dir="/job", profile=profile)
    ended = portal.wait_end(attempt)
    assert portal.text(attempt).splitlines()[-1] == "result"
    assert ended.exit is not None
    assert ended.exit.code == 0


def test_the_time_of_the_last_checkpoint_is_told_with_the_task(portal: PortalSide) -> None:
    job, mounts = portal.shared()
    script = 'while [ ! -e "$BERTH_JOB_DIR/over" ]; do sleep 0.1; done'
    attempt = portal.run(script, mounts=mounts, job_dir="/job", checkpoint=f"{job}/model/last.pt")
    running = portal.wait_state(attempt, ContainerState.RUNNING)
    assert running.checkpoint_ms is None
    (job / "model").mkdir()
    (job / "model/last.pt").touch()
    os.utime(job / "model/last.pt", (1_800_000_000, 1_800_000_000))
    portal.wait(attempt, lambda c: c.checkpoint_ms == 1_800_000_000_000)
    os.utime(job / "model/last.pt", (1_800_000_007, 1_800_000_007.25))
    (job / "over").touch()
    assert portal.wait_end(attempt).checkpoint_ms == 1_800_000_007_250


def test_a_checkpoint_file_that_leads_out_of_the_tasks_folders_tells_nothing(portal: PortalSide) -> None:
    job, mounts = portal.shared()
    job.mkdir()
    (job / "last.pt").symlink_to("/etc/passwd")
    (job / "out").symlink_to("/etc")
    for name in ("last.pt", "out/passwd"):
        ended = portal.wait_end(portal.run("true", mounts=mounts, job_dir="/job", checkpoint=f"{job}/{name}"))
        assert (ended.exit and ended.exit.code, ended.checkpoint_ms) == (0, None)
    outside = portal.wait_end(portal.run("true", mounts=mounts, checkpoint="/etc/passwd"))
    assert outside.exit is not None
    assert outside.exit.cause is Cause.INVALID


def test_a_storage_that_is_not_mounted_is_the_nodes_fault(portal: PortalSide) -> None:
    _, mounts = portal.shared(must_be_mount=True)
    ended = portal.wait_end(portal.run("true", mounts=mounts))
    assert ended.exit is not None
    assert ended.exit.cause is Cause.STORAGE_MISSING


def test_the_next_attempt_waits_until_the_last_one_has_let_the_job_folder_go(portal: PortalSide) -> None:
    job, mounts = portal.shared()
    lease = f"{job}/.berth/lease"
    first = portal.run("sleep 600", mounts=mounts, job_dir="/job", lease=lease)
    portal.wait_state(first, ContainerState.RUNNING)
    wait_until(lambda: Path(lease).exists(), "the lease")
    second = portal.run("echo mine", mounts=mounts, job_dir="/job", lease=lease, lease_after="attempt 1")
    waiting = portal.wait(second, lambda c: c.progress is not None and c.progress.code == "lease")
    assert waiting.state is ContainerState.ACCEPTED
    portal.stop(first, grace_s=1)
    portal.wait_end(second)
    assert portal.output(second) == "mine\n"


def test_a_wait_for_the_lease_ends_with_a_stop(portal: PortalSide) -> None:
    job, mounts = portal.shared()
    (job / ".berth").mkdir(parents=True)
    (job / ".berth/lease").write_text("x")
    attempt = portal.run("true", mounts=mounts, lease=f"{job}/.berth/lease", lease_after="attempt 1")
    portal.wait(attempt, lambda c: c.progress is not None)
    portal.stop(attempt)
    ended = portal.wait_end(attempt)
    assert ended.exit is not None
    assert ended.exit.cause is Cause.STOPPED


# ---------------------------------------------------------------- GPUs, secrets, reports


def test_a_gpu_that_another_task_holds_is_not_given_twice(portal: PortalSide) -> None:
    first = portal.run("sleep 600", gpus=(portal.gpu(0),))
    portal.wait_state(first, ContainerState.RUNNING)
    second = portal.run("echo never", gpus=(portal.gpu(0), portal.gpu(1)))
    ended = portal.wait_end(second)
    assert ended.exit is not None
    assert (ended.exit.cause, ended.started_ms) == (Cause.DEVICE_FAULT, None)


def test_no_secret_lies_on_the_nodes_disk_or_in_its_log(portal: PortalSide) -> None:
    attempt = portal.run("test $TOKEN = hunter2-env && : hunter2-script && sleep 0.5", env={"TOKEN": "hunter2-env"})
    portal.wait_state(attempt, ContainerState.RUNNING)
    found = [path for path in portal.state.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    assert found == []
    assert not any(b"hunter2" in command for command in _command_lines())
    ended = portal.wait_end(attempt)
    assert ended.exit is not None
    assert ended.exit.code == 0


def _command_lines() -> Iterator[bytes]:
    """Of every process on this machine that does not end meanwhile."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_bytes()


def test_reports_of_one_boot_are_numbered_and_boots_grow(portal: PortalSide) -> None:
    first = portal.reports[-1]
    portal.agent.kill()
    portal.start()
    last = portal.reports[-1]
    assert last.boot > first.boot
    assert [report.seq for report in portal.reports if report.boot == last.boot][0] == 1
    numbers = [report.seq for report in portal.reports if report.boot == first.boot]
    assert numbers == list(range(first.seq, first.seq + len(numbers)))


def test_the_inventory_tells_what_the_node_has(portal: PortalSide, runtime: str) -> None:
    inventory = portal.reports[-1].inventory
    assert (len(inventory.gpus), inventory.simulated, inventory.runtime) == (4, True, runtime)
    assert (inventory.cpu_milli, inventory.memory_mb) == (1000 * PROMISED_CPUS, 1024 * PROMISED_GB)
    assert 1000 <= inventory.there_cpu_milli < inventory.cpu_milli
    assert 256 < inventory.there_memory_mb < inventory.memory_mb
    assert inventory.address
    assert inventory.interface
    assert ("docker" in inventory.capabilities) is (runtime == "docker")


def test_a_task_that_was_promised_more_than_the_machine_has_is_held_to_that(portal: PortalSide, runtime: str) -> None:
    there = portal.reports[-1].inventory
    wanted = Limits(cpu_milli=1000 * PROMISED_CPUS, memory_mb=1024 * PROMISED_GB, shm_mb=64, pids=512)
    attempt = portal.run("ulimit -d", limits=wanted)
    ended = portal.wait_end(attempt)
    assert ended.exit is not None
    assert ended.exit.code == 0
    if runtime == "process":
        assert portal.output(attempt).split() == [str(there.there_memory_mb << 10)]
        return
    with portal.docker() as engine:
        limits = engine.api.inspect_container(container_name(attempt))["HostConfig"]
    assert (limits["NanoCpus"], limits["Memory"]) == (there.there_cpu_milli * 1_000_000, there.there_memory_mb << 20)


def test_two_agents_leave_each_others_tasks_alone(portal: PortalSide, make_portal: MakePortal) -> None:
    attempt = portal.run("sleep 600")
    portal.wait_state(attempt, ContainerState.RUNNING)
    other = make_portal()
    second = other.run("echo hello")
    other.wait_end(second)
    assert other.container(attempt) is None
    other.clear()
    assert portal.wait_state(attempt, ContainerState.RUNNING)
