"""SSH into real containers: who is let in, with which keys, and what an image without a server says."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from nodes.protocol.logs import MARK
from nodes.protocol.messages import ContainerReport, SshAccess, SshServer
from nodes.protocol.states import Phase
from portal.node_orders.services.environment import Peer
from tests.support.cluster.portal_side import PortalSide, spec_of
from tests.support.cluster.world import job_file
from tests.support.images.ssh_image import ssh_image
from tests.support.run.waiting import wait_until
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.processes import free_port

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def runtime() -> str:
    return "docker"


@pytest.fixture(scope="module")
def image(running_docker: DockerEngine) -> str:
    return ssh_image(running_docker)


def key_pair(folder: Path, name: str) -> tuple[Path, str]:
    """A private key's file, and the line that lets it in."""
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path], check=True)
    return path, path.with_suffix(".pub").read_text().strip()


def opened(portal: PortalSide, keys: tuple[str, ...], script: str = "sleep 600", **changes: object) -> ContainerReport:
    """A running task with its server's report; ``changes`` are its spec's."""
    port = free_port()
    spec = spec_of(script, ports={"ssh": (port,)}, **changes)
    portal.ssh[spec.attempt] = SshAccess(port=port, keys=keys)
    return portal.wait(portal.order(spec, Phase.RUN), lambda report: report.ssh is not None)


def told(portal: PortalSide, task: ContainerReport) -> str:
    """Berth's own lines in the task's log."""
    return "".join(record.payload.decode() for record in portal.records(task.attempt) if record.stream == MARK)


def ssh(portal: PortalSide, task: ContainerReport, key: Path, *command: str) -> subprocess.CompletedProcess[str]:
    assert task.ssh is not None
    known = key.with_suffix(".known")
    known.write_text(f"task {task.ssh.host_key}\n")
    options = [
        *("StrictHostKeyChecking=yes", "HostKeyAlias=task", f"UserKnownHostsFile={known}", "IdentitiesOnly=yes"),
        *("PasswordAuthentication=no", "ConnectTimeout=10", "LogLevel=ERROR"),
    ]
    words = ["-F", "none", "-i", str(key), *(word for option in options for word in ("-o", option))]
    address = [*("-p", str(portal.ssh[task.attempt].port)), f"{task.ssh.user}@127.0.0.1"]
    terminal = [word for word in command if word == "-tt"]
    run = ["ssh", *words, *terminal, *address, *(word for word in command if word not in terminal)]
    return subprocess.run(run, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL, check=False)


@pytest.mark.parametrize(("profile", "user"), [("user", "alice"), ("root", "root")])
def test_the_right_key_opens_a_task_and_no_other_does(
    portal: PortalSide, image: str, tmp_path: Path, profile: str, user: str
) -> None:
    (right, line), (wrong, _) = key_pair(tmp_path, "right"), key_pair(tmp_path, "wrong")
    env = {"PAI_JOB_NAME": "hello", "ODD": 'a "quoted" one', "PATH": "/usr/bin:/bin"}
    task = opened(portal, (line,), image=image, profile=profile, env=env)
    assert task.ssh is not None
    assert (task.ssh.user, task.ssh.message) == (user, "")
    inside = ssh(portal, task, right, 'id -un; echo "$PAI_JOB_NAME $BERTH_ATTEMPT_ID ${BERTH_SCRIPT-no script} $PATH"')
    said = [user, f"hello {task.attempt} no script /usr/bin:/bin"]
    assert (inside.returncode, inside.stdout.splitlines()) == (0, said), inside.stderr
    refused = ssh(portal, task, wrong, "id")
    assert (refused.returncode, refused.stdout) == (255, "")
    assert "Permission denied (publickey)" in refused.stderr
    terminal = ssh(portal, task, right, "-tt", "tty")
    assert terminal.stdout.startswith("/dev/pts/"), terminal.stderr
    wait_until(lambda: f"SSH: port {portal.ssh[task.attempt].port}, user {user}" in told(portal, task), "its log")


def test_keys_follow_the_profile_while_the_task_runs_and_lines_with_options_are_no_keys(
    portal: PortalSide, image: str, tmp_path: Path
) -> None:
    (first, old), (second, new) = key_pair(tmp_path, "first"), key_pair(tmp_path, "second")
    forced = f'command="echo forced" {new}'
    task = opened(portal, (old, forced), image=image)
    assert ssh(portal, task, first, "echo in").stdout == "in\n"
    assert ssh(portal, task, second, "echo in").stdout == ""
    portal.ssh[task.attempt] = replace(portal.ssh[task.attempt], keys=(new,))
    portal.send()
    wait_until(lambda: ssh(portal, task, second, "echo in").stdout == "in\n", "the new key")
    assert ssh(portal, task, first, "echo in").stdout == ""


def test_a_task_whose_image_has_no_server_runs_on_and_says_why(portal: PortalSide) -> None:
    task = opened(portal, (), script="echo begun; sleep 600")
    assert task.ssh == SshServer(message="its image has no SSH server: install openssh-server in it")
    wait_until(lambda: "begun" in portal.output(task.attempt), "its output")
    assert "no SSH into this task: its image has no SSH server" in told(portal, task)


def test_the_tasks_of_a_job_wait_for_each_other_and_know_each_other_by_name(portal: PortalSide, image: str) -> None:
    from portal.job_file.validate import parse
    from portal.node_orders.services.job_ssh import job_key, job_ssh_script, private_text, public_line

    plugin = {"plugin": "ssh", "parameters": {"jobssh": True, "sshbarrier": True, "sshbarrierTimeout": 1}}
    spec = parse(job_file(instances=2, extras={"com.microsoft.pai.runtimeplugin": [plugin]}))
    peers = [Peer("worker", rank, rank, "127.0.0.1", {"ssh": (free_port(),)}, 0) for rank in range(2)]
    tasks = []
    for me in peers:
        among = job_ssh_script(spec, key=job_key(1), private=private_text(job_key(1)), me=me, peers=peers)
        script = f"{among}ssh worker-{1 - me.index} 'echo in $PAI_TASK_INDEX'; sleep 600"
        env = {"BERTH_JOB_SSH": "1", "PAI_TASK_INDEX": str(me.index)}
        one = spec_of(script, image=image, network="host", ports=dict(me.ports), env=env, index=me.index)
        portal.ssh[one.attempt] = SshAccess(port=me.ports["ssh"][0], keys=(public_line(job_key(1)),))
        tasks.append(portal.order(one, Phase.RUN))
    for index, attempt in enumerate(tasks):
        portal.wait(attempt, lambda report: portal.output(report.attempt))
        assert portal.output(attempt) == f"in {1 - index}\n"
