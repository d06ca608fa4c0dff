"""The `berth` command at a real server: what it prints, for people and for programs."""

from __future__ import annotations

import json
import os
import stat
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import yaml

from berth import Client
from nodes.protocol.messages import Order, Progress, SshServer
from nodes.protocol.states import ContainerState
from portal.hardware.wordings import NO_REPORT
from tests.integration.client.conftest import token_for
from tests.support.cluster.world import job_file
from tests.support.people.shell import Shell
from tests.support.run.waiting import wait_until
from tests.support.services.restarted import requeued, restarted

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db(transaction=True)


def written(shell: Shell, text: str) -> str:
    """The name of a new file with this text, where the command is typed."""
    (shell.home / "job.yaml").write_text(text)
    return "job.yaml"


def test_signing_in_keeps_a_token_that_the_other_commands_use(world: World, url: str, shell: Shell) -> None:
    shell.url = shell.token = ""
    said = shell.berth("login", url, "--user", "alice", "--password-stdin", typed="correct horse\n")
    file = shell.home / ".config" / "berth" / "config.yaml"
    assert str(file) in said
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "correct horse" not in file.read_text()
    assert json.loads(shell.berth("ls", "--json")) == []
    elsewhere = shell.berth("--url", "http://127.0.0.1:1", "ls", code=77)
    assert "no token for http://127.0.0.1:1" in elsewhere, "a token is sent to its own server alone"
    assert "is revoked, and forgotten here" in shell.berth("logout")
    assert "Sign in again: berth login" in shell.berth("ls", code=77)
    assert not live_tokens("berth on")


def live_tokens(name: str) -> list[int]:
    """The tokens of this name that still hold."""
    from portal.accounts.models import Token

    return list(Token.objects.filter(name__startswith=name, revoked_at=None).values_list("pk", flat=True))


def test_a_token_that_is_replaced_is_revoked_and_one_that_cannot_be_is_told(
    world: World, url: str, shell: Shell
) -> None:
    shell.url = shell.token = ""
    sign_in = ("login", url, "--user", "alice", "--password-stdin")
    shell.berth(*sign_in, typed="correct horse\n")
    (first,) = live_tokens("berth on")
    shell.berth(*sign_in, "--scope", "read", typed="correct horse\n")
    (second,) = live_tokens("berth on")
    assert second != first
    file = shell.home / ".config" / "berth" / "config.yaml"
    stored = file.read_text()
    gone = "http://127.0.0.1:1"
    file.write_text(stored.replace(url, gone))
    told = shell.berth("logout", code=69)
    ends = f"{datetime.now(UTC) + timedelta(days=30):%Y}"
    assert f"It lives on until {ends}-" in told
    assert f"revoke it on your profile page, {gone}/profile, where it begins berth_" in told
    assert gone not in file.read_text().replace(f"url: {gone}", "")
    file.write_text(stored)
    Client(url, yaml.safe_load(stored)["tokens"][url], trust_env=False).tokens.revoke_current()
    assert "had ended already" in shell.berth("logout")


def test_a_wrong_password_and_a_token_from_the_page(world: World, url: str, shell: Shell) -> None:
    shell.url, token = "", shell.token
    shell.token = ""
    assert "berth: " in shell.berth("login", url, "-u", "alice", "--password-stdin", typed="wrong\n", code=77)
    assert "as alice" in shell.berth("login", url, "--token-stdin", typed=f"{token}\n")
    assert shell.berth("ls").startswith("ID")


def test_a_job_is_submitted_listed_shown_and_stopped_by_its_name(world: World, shell: Shell) -> None:
    world.node("gpu01")
    said = shell.berth("submit", written(shell, job_file()))
    assert said.startswith("job alice/train#1 submitted (id ")
    job = json.loads(shell.berth("submit", "-", "--json", typed=job_file()))
    assert job["label"] == "alice/train#2"
    assert [row["run"] for row in json.loads(shell.berth("ls", "--json", "--name", "trai"))] == [2, 1]
    out, errors = shell.start("ls", "-n", "1").communicate(timeout=60)
    assert ("alice/train#2" in out, "alice/train#1" in out) == (True, False)
    assert "there are more" in errors
    world.settle()
    assert "train" not in shell.berth("ls", "--sort", "ended"), "none is over"
    assert json.loads(shell.berth("show", "train", "--json"))["job"]["id"] == job["id"]
    shown = shell.berth("show", "alice/train#1")
    assert "worker/0" in shown
    assert "gpu01" in shown
    assert "job alice/train#1 is stopping" in shell.berth("stop", "train#1")
    assert "There is no job train#9" in shell.berth("show", "train#9", code=66)
    assert "names no job" in shell.berth("show", "a/b/c", code=78)
    out, errors = shell.start("stop", "train#9", str(job["id"])).communicate(timeout=60)
    assert ("There is no job train#9" in errors, "job alice/train#2 is stopping" in out) == (True, True)
    assert "There is no job train#9" in shell.berth("stop", "train#9", "train#2", code=66)
    assert "protocolVersion: 2" in shell.berth("config", "train")


def test_every_problem_of_a_file_is_told_with_its_line(world: World, shell: Shell) -> None:
    world.node("gpu01")
    checked = shell.berth("check", written(shell, job_file()))
    assert checked.startswith("train is valid: 1 tasks, 1 GPUs, in vision\nhint: ")
    found = json.loads(shell.berth("check", written(shell, job_file()), "--json"))
    assert found["valid"]
    said = shell.berth("submit", written(shell, job_file(nonsense=1, role={"instances": 0})), code=65)
    assert "berth: refused for 2 reasons:" in said
    assert "  nonsense (line " in said
    assert "cannot be read: No such file" in shell.berth("submit", "absent.yaml", code=78)


def test_why_queue_and_top_tell_of_what_waits(world: World, shell: Shell) -> None:
    world.node("gpu01", gpus=1)
    file = written(shell, job_file())
    shell.berth("submit", file)
    shell.berth("submit", file)
    world.settle()
    why = " ".join(shell.berth("why", "train").split())
    assert "1 of its 1" in why
    assert "Place 1 in the queue of vision, counted among the jobs that want the same GPUs." in why
    assert "does not wait: it is running" in shell.berth("why", "train#1")
    assert json.loads(shell.berth("why", "train", "--json"))["code"] == "quota"
    assert "alice/train#2" in shell.berth("queue")
    assert json.loads(shell.berth("queue", "--vc", "vision", "--json"))[0]["place"] == 1
    page = shell.berth("top")
    assert max(map(len, page.splitlines())) <= 160, "where nobody looks, a line has an end too"
    assert "1 of 1 GPUs held" in page
    assert "alice/train#1" in page
    assert json.loads(shell.berth("top", "--json"))["nodes"][0]["name"] == "gpu01"
    would = " ".join(shell.berth("submit", file, "--dry-run").split())
    assert "It would wait: " in would
    assert "Place 2 in its queue, counted among the jobs that want the same." in would
    assert "paused" in shell.berth("pause", "train")
    assert "is waiting\n" in shell.berth("resume", "train")
    assert "yours: vision" in shell.berth("move", "train", "elsewhere", code=65)
    assert shell.berth("tag", "train", "+baseline", "+the old one", "-gone") == "baseline\nthe old one\n"
    assert shell.berth("tag", "train", "-the old one") == shell.berth("tag", "train") == "baseline\n"
    assert "write +sweep" in shell.berth("tag", "train", "sweep", code=78)
    assert "has the class oppo" in shell.berth("priority", "train", "oppo")
    assert "has another place" in shell.berth("place", "train", "--front")
    assert "does not wait" in shell.berth("place", "train", "--before", "train#1", code=1)
    assert "say where to" in shell.berth("place", "train", code=78)


def next_new_order(world: World) -> Order | None:
    """One round of cycle and node, up to an order that its node has not begun with."""
    world.cycle()
    node = world.nodes["gpu01"]
    found = next((order for order in node.desired().orders if order.attempt not in node.containers), None)
    if found is None:
        node.obey()
    return found


def test_following_tells_why_a_job_waits_and_what_its_node_prepares(world: World, shell: Shell, berth: Client) -> None:
    node = world.node("gpu01", gpus=1)
    holder = berth.jobs.submit(job_file(name="holder"))
    world.settle()
    process = shell.start("submit", written(shell, job_file()), "--follow")
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.extend(process.stderr or ()), daemon=True)
    reader.start()
    wait_until(lambda: any("submitted" in line for line in said), "the submission")
    world.settle()
    wait_until(lambda: any("1 of its 1" in line and "place 1" in line for line in said), "the reason")
    berth.jobs.stop(holder.id)
    order = wait_until(lambda: next_new_order(world), "the order to run it")
    node.set(order, ContainerState.PULLING, progress=Progress(code="image", percent=34))
    node.report()
    wait_until(lambda: any("worker/0 on gpu01: image 34 %" in line for line in said), "the pull")
    assert "image 34 %" in shell.berth("show", "train")
    world.settle()
    node.finish(code=5)
    try:
        assert process.wait(60) == 5
    finally:
        process.kill()
    reader.join(5)
    assert "train#1 failed" in said[-1]


def test_a_command_becomes_a_job_in_ones_only_virtual_cluster(world: World, shell: Shell, berth: Client) -> None:
    world.node("gpu01", gpus=4)
    options = ["--image", "busybox", "-g", "2", "--memory", "1.5G", "--cpu", "3", "-e", "A=b c", "--priority", "test"]
    said = shell.berth("run", *options, "--time-limit", "2h", "--borrow", "--", "python", "train.py", "--lr", "1 e")
    assert "job alice/train#1 submitted" in said
    (role,) = berth.jobs.get(next(berth.jobs.list()).id).roles
    assert (role.gpus, role.cpu_milli, role.memory_mb) == (2, 3000, 1536)
    file = berth.jobs.config(next(berth.jobs.list()).id)
    assert "export A='b c'" in file
    assert "python train.py --lr '1 e'" in file
    assert "borrow: auto" in file
    assert "--memory 1X" in shell.berth("run", "--image", "i", "--memory", "1X", "--", "true", code=78)
    refused = shell.berth("run", "--image", "i", "--time-limit", "2 weeks", "--", "true", code=65)
    assert "timeLimit" in refused
    assert "line" not in refused, "of a file that nobody has seen"
    printed = shell.berth("run", "--image", "i", "--print", "--", "true")
    assert "virtualCluster: vision" in printed
    shell.berth("submit", written(shell, printed))


def test_run_tells_an_administrator_in_no_team_which_there_are_and_anybody_else_whom_to_ask(
    world: World, url: str, tmp_path: Path
) -> None:
    from portal.accounts.models import ClusterRole
    from tests.support.people.cast import person

    refused = {}
    for name, role in (("root", ClusterRole.ADMIN), ("eve", ClusterRole.USER)):
        shell = Shell(tmp_path, url, token_for(person(name, role)))
        refused[name] = shell.berth("run", "--image", "i", "--", "true", code=78)
    assert "you are a member of no virtual cluster; name one: --vc vision" in refused["root"]
    assert "you are in no virtual cluster: ask an administrator, or the lead of one" in refused["eve"]


def test_accounts_are_made_listed_and_disabled_by_administrators(world: World, shell: Shell) -> None:
    from portal.accounts.models import ClusterRole
    from tests.support.people.cast import person

    assert shell.berth("user", "add", "eve", code=77).startswith("berth: ")
    shell.token = token_for(person("root", ClusterRole.ADMIN))
    made = shell.berth("user", "add", "eve", "--vc", "vision", "--uid", "5001", "--email", "eve@example.org")
    assert "user eve is made\n" in made
    typed = shell.berth("user", "add", "ann", "--password-stdin", "--json", typed="correct horse 7\n")
    assert json.loads(typed)["role"] == "user"
    assert "There is a user eve already." in shell.berth("user", "add", "eve", code=1)
    assert "password" in shell.berth("user", "add", "ben", "--password-stdin", typed="short\n", code=65)
    listed = shell.berth("user", "ls", "EVE@")
    assert "eve@example.org" in listed
    assert "vision" in listed
    assert "user eve is disabled" in shell.berth("user", "disable", "eve")
    assert [one["username"] for one in json.loads(shell.berth("user", "ls", "--disabled", "--json"))] == ["eve"]
    assert "user eve is active" in shell.berth("user", "enable", "eve")
    assert "last administrator" in shell.berth("user", "disable", "root", code=1)


def test_alerts_say_what_is_wrong_and_what_to_do(world: World, shell: Shell) -> None:
    from portal.accounts.models import ClusterRole
    from portal.hardware.models import Node
    from tests.support.people.cast import person

    assert shell.berth("alerts") == ""
    world.node("gpu01")
    Node.objects.update(health="lost", health_reason=NO_REPORT(time="noon", seconds=60))
    shell.token = token_for(person("root", ClusterRole.ADMIN))
    told = shell.berth("alerts")
    assert "node gpu01" in told
    assert "No report since noon; given up after 60 s." in told
    assert "node_lost" in [one["code"] for one in json.loads(shell.berth("alerts", "--json"))]


def test_a_job_that_was_preempted_has_run_for_as_long_as_it_ran(world: World, shell: Shell) -> None:
    world.node("gpu01")
    job = restarted(world)
    assert " 15m " in shell.berth("ls")
    top = shell.berth("top")
    assert f"{(world.now - timedelta(minutes=5)).astimezone():%H:%M}" in top
    assert " 15m " in top
    shown = shell.berth("show", "train")
    assert ", 1 restart " in shown
    assert "retries" not in shown
    requeued(job, state="waiting")
    assert " 15m " not in shell.berth("ls")
    requeued(job, state="stopped", ended_at=world.now)
    assert " 15m " in shell.berth("ls", "--all")


def test_what_is_out_of_service_is_told_beside_what_is_unused(world: World, shell: Shell) -> None:
    from portal.hardware.models import Node

    world.node("gpu01", gpus=2)
    assert shell.berth("vc").split()[-4:] == ["2", "0", "0", "2"]
    Node.objects.update(intent="cordoned")
    assert "2 (2 out)" in shell.berth("vc")
    assert "2 (2 out)" in shell.berth("top")


def test_tokens_are_made_listed_and_revoked(world: World, shell: Shell) -> None:
    secret = shell.berth("token", "new", "ci", "--scope", "read", "--days", "7").strip()
    listed = json.loads(shell.berth("token", "ls", "--json"))
    assert listed[0]["name"] == "ci"
    assert secret.startswith(listed[0]["prefix"])
    keeper, shell.token = shell.token, secret
    assert "scope read; submit is needed" in shell.berth("submit", "-", typed=job_file(), code=77)
    shell.token = keeper
    shell.berth("token", "revoke", str(listed[0]["id"]))
    shell.token = secret
    assert "Sign in again" in shell.berth("ls", code=77)


def test_names_and_reasons_of_others_cannot_steer_the_terminal(world: World, shell: Shell) -> None:
    from portal.jobs.models import Job

    world.node("gpu01")
    shell.berth("submit", written(shell, job_file()))
    Job.objects.update(waiting_message="\x1b]0;owned\x07[red]\u202egnp\r\nx", waiting_code="quota")
    shown = shell.berth("ls") + shell.berth("why", "train") + shell.berth("show", "train")
    assert not {"\x1b", "\x07", "\u202e", "\r"} & set(shown)
    assert "\\x1b]0;owned\\x07[red]\\u202egnp" in shown


def test_a_server_that_is_away_is_said_in_a_sentence(tmp_path: object, shell: Shell) -> None:
    shell.url = "http://127.0.0.1:1"
    said = shell.berth("ls", code=69)
    assert (
        said
        == "berth: http://127.0.0.1:1 cannot be reached: Connection refused. Is the address right and the server up?\n"
    )
    shell.url = shell.url.replace("http", "https")
    assert "cannot be reached" in shell.berth("ls", code=69)
    for wrong in ("nonsense", "https://[::1", "https://x:abc", "https://x:99999"):
        shell.url = wrong
        assert f"{wrong!r} is no address of a server" in shell.berth("ls", code=78)
        said = shell.berth("login", wrong, "--token-stdin", typed="x", code=78)
        assert said == f"berth: {wrong!r} is no address of a server: write it as https://berth.example.org.\n"


def test_a_server_without_tls_and_one_that_is_no_berth_are_told_apart(url: str, shell: Shell) -> None:
    shell.url = url.replace("http", "https")
    assert "it does not speak TLS there" in shell.berth("ls", code=69)
    shell.url = f"{url}/elsewhere"
    assert "is the address right?" in shell.berth("ls", code=70)


def test_tab_completes_commands_jobs_and_nodes(world: World, shell: Shell, berth: Client) -> None:
    world.node("gpu01")
    berth.jobs.submit(job_file(name="train-mnist"))
    for typed, offered in {"su": "submit", "show tra": "train-mnist", "node drain ": "gpu01", "vc ": "vision"}.items():
        words = typed.split(" ")
        asked = {"_BERTH_COMPLETE": "complete_bash", "COMP_WORDS": f"berth {typed}", "COMP_CWORD": str(len(words))}
        shell.more = asked
        assert shell.berth().strip() == offered
    shell.token = "berth_nonsense"
    assert shell.berth().strip() == "", "who is not signed in is offered nothing, and no error"
    shell.more = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    assert "_BERTH_COMPLETE=complete_bash" in shell.berth("--show-completion", "bash")


FAKE_SSH = """#!/bin/sh
for word; do case $word in UserKnownHostsFile=*) eval "file=${word#*=}"; cat "$file" ;; esac; done
echo "$@"
exit 7
"""
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"


def test_ssh_is_given_the_tasks_host_key_and_its_exit_code_is_passed_on(world: World, shell: Shell) -> None:
    from portal.jobs.models import TaskAttempt

    node = world.node("gpu01")
    plugin = {"com.microsoft.pai.runtimeplugin": [{"plugin": "ssh", "parameters": {"jobssh": True}}]}
    shell.berth("submit", written(shell, job_file(extras=plugin)))
    world.settle()
    assert "is not there yet" in shell.berth("ssh", "train", code=69)
    (attempt,) = node.containers
    server = SshServer(user="root", host_key=HOST_KEY)
    node.containers[attempt] = replace(node.containers[attempt], ssh=server)
    node.report()
    port, alias = TaskAttempt.objects.get().ports["ssh"][0], f"berth-{attempt.replace('-', '')[:12]}"
    line = f"ssh -p {port} -o HostKeyAlias={alias} root@127.0.0.1 id -u\n"
    assert shell.berth("ssh", "train", "--print", "--", "id", "-u") == line
    (shell.home / "ssh").write_text(FAKE_SSH)
    (shell.home / "ssh").chmod(0o755)
    shell.more = {"PATH": f"{shell.home}:{os.environ['PATH']}"}
    out, _ = shell.start("ssh", "train", "-o", "LocalForward=1:a:2", "--", "id").communicate(timeout=60)
    known, words = out.splitlines()
    assert known == f"{alias} {HOST_KEY}"
    assert words.endswith("StrictHostKeyChecking=yes -o LocalForward=1:a:2 -- root@127.0.0.1 id")
    node.finish()
    assert "is not reached by SSH" in shell.berth("ssh", "train", code=69)
