"""``python -m portal.embedded [--no-job]``: start everything on this machine, run the sample job, stay until Ctrl-C."""

from __future__ import annotations

import argparse
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from portal.embedded.engine import CannotStart
from portal.embedded.options import (
    ADMIN,
    REPOSITORY,
    SIMULATED,
    Options,
    jobs_let_through,
    options_read,
    redis_named,
)
from portal.embedded.redis import BundledRedis

READY_S = 120.0
UMASK = 0o027


def say(line: str) -> None:
    """One line for the person at the terminal."""
    print(line, flush=True)


def main() -> int:
    """The whole way of the demo, in order."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--no-job", action="store_true", help="start the stack without the sample job")
    arguments = parser.parse_args()
    options = options_read()
    os.umask(UMASK)  # what the portal keeps is nobody else's, also where jobs get through its folder
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "BERTH_DATA_DIR": str(options.data),
        "BERTH_URL": options.url,
    }
    if redis_named(options.data):
        return _started(options, sample=not arguments.no_job)
    redis = BundledRedis(options.data / "redis", said=say)
    redis.start()
    try:
        os.environ["BERTH_REDIS_URL"] = redis.url
        os.environ.pop("BERTH_REDIS_URL_FILE", None)
        return _started(options, sample=not arguments.no_job)
    finally:
        redis.stop()


def _started(options: Options, *, sample: bool) -> int:
    """``_stack``, with one sentence where what the environment names cannot be used (a database, a Redis)."""
    try:
        return _stack(options, sample=sample)
    except Exception as error:
        from portal.common.outages import outage

        if told := outage(error):
            raise CannotStart(told) from None
        raise


def _stack(options: Options, *, sample: bool) -> int:
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.utils import timezone

    from portal.common.checks import settings_stop
    from portal.common.wake import redis_once
    from portal.embedded.processes import Processes, commands
    from portal.embedded.seed import jobs_folder, seed
    from portal.embedded.stack_log import StackLog
    from portal.hardware.models import Node
    from portal.hardware.services.redis_accounts import redis_accounts_apply, redis_address

    settings_stop()
    redis_once().ping()
    say("Preparing the database and the pages …")
    call_command("migrate", verbosity=0, interactive=False)
    call_command("collectstatic", verbosity=0, interactive=False)
    jobs = jobs_folder(data=options.data, as_others=options.jobs_as_others)
    node = _node(options, jobs, settings.CLUSTER_NAME, settings.PORTAL_KEY.public)
    seeded = seed(node_name=node.name, node_key=node.key, jobs_folder=jobs, now=timezone.now())
    redis_accounts_apply()
    if seeded.new_key:
        say(f"Node {node.name} has a new key: {node.state} has none of this database's. Tasks that ran there are lost.")
    if not jobs.is_relative_to(options.data):
        say(f"Jobs have their folders in {jobs}.")
    _tell_sign_in(seeded.password, options)
    log_path = options.data / "stack.log"
    with StackLog(log_path) as log:
        redis_url = redis_address(Node.objects.get(name=node.name))
        environment = told(node.environment(options) | {"BERTH_NODE_REDIS_URL": redis_url})
        processes = Processes(lines=commands(bind=options.bind, port=options.port), environment=environment, log=log)
        guide = Guide(options=options, node=node, sample=sample)
        thread = threading.Thread(target=guide.run, args=(processes.ended, processes.stop), daemon=True)
        thread.start()
        code = processes.run()
    say(f"Stopped. Everything is kept in {options.data}; `make demo` finds it again.")
    return _exit_code(code, guide, log_path)


def _tell_sign_in(password: str | None, options: Options) -> None:
    if password:
        say(f"The administrator is {ADMIN}, the password {password} (shown this once).")
    else:
        say(f"The administrator is {ADMIN}; a new password: {options.new_password}")


def _exit_code(code: int, guide: Guide, log_path: Path) -> int:
    if guide.failure:
        say(f"{guide.failure} The stack's log is {log_path}.")
        return 1
    interrupted = code in {130, 143} or guide.up
    if not interrupted:
        say(f"A process of the stack ended by itself (status {code}). The stack's log is {log_path}.")
    return 0 if interrupted else 1


@dataclass(frozen=True, slots=True)
class LocalNode:
    """This machine as a node: its name, the public half of its key, its state folder, where jobs have their folders,
    and its portal's cluster and key."""

    name: str
    key: str
    state: Path
    jobs: Path
    cluster: str
    portal_key: str

    def environment(self, options: Options) -> dict[str, str]:
        """What its agent is told: what is the stack's own to say, and else what the environment says."""
        given = os.environ.get
        runtime = "docker" if options.docker_url else "process"
        found = {
            "BERTH_NODE_NAME": self.name,
            "BERTH_NODE_CLUSTER": self.cluster,
            "BERTH_NODE_SETTINGS": os.devnull,  # those of another agent of this machine
            "BERTH_NODE_STATE_DIR": str(self.state),
            "BERTH_NODE_PORTAL_PUBLIC_KEY": self.portal_key,
            "BERTH_NODE_RUNTIME": runtime,
            "BERTH_NODE_DISK_CLEAN": given("BERTH_NODE_DISK_CLEAN", "off"),
            "BERTH_NODE_GPUS": options.gpus,
            "BERTH_NODE_MOUNT_ROOTS": ":".join(filter(None, [str(self.jobs), given("BERTH_NODE_MOUNT_ROOTS")])),
            **{name: given(name, least) for name, least in SIMULATED.items()},
        }
        if not options.jobs_as_others:  # the default is a folder of whoever had a stack on this machine first
            found["BERTH_NODE_HOME_DIR"] = given("BERTH_NODE_HOME_DIR", str(self.state / "homes"))
        if options.docker_url:
            found["BERTH_NODE_DOCKER_URL"] = options.docker_url
            found["BERTH_NODE_DOCKER_TLS"] = str(options.docker_tls or "")
        return found


def told(of_stack: Mapping[str, str]) -> dict[str, str]:
    """The environment with these, which no file of the same name overrides."""
    files = {f"{name}_FILE" for name in of_stack}
    return {**{name: value for name, value in os.environ.items() if name not in files}, **of_stack}


def _node(options: Options, jobs: Path, cluster: str, portal_key: str) -> LocalNode:
    host = re.sub(r"[^a-z0-9-]+", "-", socket.gethostname().split(".")[0].lower()).strip("-") or "this-machine"
    state = Path(os.environ.get("BERTH_NODE_STATE_DIR") or options.data / "node")
    node = LocalNode(os.environ.get("BERTH_NODE_NAME") or host, "", state, jobs, cluster, portal_key)
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = subprocess.run(
        [sys.executable, "-m", "nodes", "key"], cwd=REPOSITORY, capture_output=True, text=True, check=False,
        env=told(node.environment(options)),
    )  # fmt: skip
    if made.returncode:
        raise CannotStart(f"The node's key could not be made: {made.stderr.strip()}")
    return replace(node, key=made.stdout.strip().splitlines()[-1])


class Guide:
    """Leads the person through the start: waits for each part, shares the GPUs, runs the sample job."""

    def __init__(self, *, options: Options, node: LocalNode, sample: bool) -> None:
        self._options, self._node, self._sample = options, node, sample
        self.failure = ""
        self.up = False

    def run(self, ended: threading.Event, stop: object) -> None:
        """In a thread of its own beside the processes."""
        try:
            self._lead(ended)
        except _StackEnded:
            return
        except Exception as error:  # whatever goes wrong here must end the stack with a sentence, not hang it
            self.failure = f"The demo could not go on: {error!r}."
            if callable(stop):
                stop()

    def _lead(self, ended: threading.Event) -> None:
        from django.utils import timezone

        from portal.embedded.seed import node_ready, quotas_share

        options = self._options
        _wait(lambda: _answers(options.here), "the portal does not answer", ended)
        _wait(lambda: node_ready(node_name=self._node.name) is not None, "this machine's agent does not report", ended)
        self._tell_hardware()
        quotas_share(now=timezone.now())
        self.up = True
        say(f"Berth is up: {options.url}")
        if self._sample:
            self._run_sample()
        say(f"The portal stays up at {options.url} — Ctrl-C stops it; jobs that run go on.")
        if options.tunnel:
            say(f"From another machine: {options.tunnel}")

    def _tell_hardware(self) -> None:
        from portal.hardware.models import Node

        node = Node.objects.get(name=self._node.name)
        gpus = list(node.gpus.filter(present=True))
        kind = "simulated" if node.simulated else "real"
        models = ", ".join(sorted({gpu.model for gpu in gpus})) or "none"
        say(f"Node {node.name}: {len(gpus)} {kind} GPUs ({models}).")
        if there := node.inventory.get("there"):
            say(
                f"Jobs are promised {node.cpu_milli // 1000} CPU and {node.memory_mb >> 10} GB; this machine has "
                f"{there['cpu_milli'] // 1000} and {there['memory_mb'] >> 10}, which they share."
            )
        if node.runtime == "process":
            say("No Docker Engine answers: jobs run as plain processes, NOT isolated; images are ignored.")
            if in_the_way := jobs_let_through(self._options.data, self._node.jobs):
                say(in_the_way)
        else:
            say(f"Jobs run as containers of the Docker Engine at {self._options.docker_url}.")

    def _run_sample(self) -> None:
        from django.utils import timezone

        from portal.accounts.models import Scope, User
        from portal.accounts.services import token_create, token_revoke
        from portal.embedded.sample import SampleJob

        admin = User.objects.get(username=ADMIN)
        token = token_create(user=admin, name="make demo", scope=Scope.SUBMIT, now=timezone.now(), expires_at=None)
        try:
            SampleJob(url=self._options.here, token=token.secret, say=say).run(REPOSITORY / "examples" / "hello.yaml")
        finally:
            token_revoke(token=token.token, now=timezone.now())


class _StackEnded(Exception):
    """The processes are gone; there is nobody to lead."""


def _wait(ready: object, complaint: str, ended: threading.Event) -> None:
    assert callable(ready)
    deadline = time.monotonic() + READY_S
    while not ready():
        if ended.wait(0.2):
            raise _StackEnded
        if time.monotonic() > deadline:
            raise TimeoutError(f"{complaint} after {READY_S:.0f} s")


def _answers(url: str) -> bool:
    try:
        with urlopen(f"{url}/healthz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


if __name__ == "__main__":
    sys.exit(main())
