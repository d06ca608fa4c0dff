"""The ``process`` runtime: a task is a plain process tree under a small wrapper. Not isolated, for one machine.

Each attempt has a folder: ``meta.json`` (labels), ``wrapper.json`` (pid and start time: it was started),
``child.json``, ``exit.json``, ``out/`` (log records) and its home. No secret is written: script and environment go to
the wrapper through a pipe.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import psutil

from nodes.agent.runtimes.base import (
    AttemptFailed,
    CodeFolder,
    ContainerExit,
    Image,
    RuntimeContainer,
    RuntimeFacts,
    Status,
    Usage,
)
from nodes.agent.runtimes.ports import ports_check
from nodes.agent.runtimes.process import wrapper
from nodes.agent.runtimes.process.output import ProcessOutput
from nodes.agent.runtimes.process.shell import ProcessShell
from nodes.agent.runtimes.process.watch import ProcessWatch
from nodes.agent.runtimes.script import script_command, script_environment
from nodes.agent.runtimes.sigterm import SigtermSequence, sigterm_targets
from nodes.agent.runtimes.stop_notice import NOTICE_NAME, NOTICE_VARIABLE, PEERS_NAME, notice_remove, notice_write
from nodes.agent.storage.delete_tree import folder_remove_or_log
from nodes.agent.storage.folders import lease_location, own_job_folder
from nodes.agent.storage.workspace import workspace_remove
from nodes.protocol import wordings
from nodes.protocol.messages import ContainerSpec, Progress, SshServer
from nodes.protocol.names import PEERS_VARIABLE
from nodes.protocol.sessions import ShellRequest
from nodes.protocol.states import Cause

ISOLATION = "process (not isolated)"
NOBODY = 65534
ATTEMPT_VARIABLE = "BERTH_ATTEMPT_ID"
"""In the environment of everything that a task starts."""
_START_DEADLINE_S = 20.0


class ProcessRuntime:
    """``Runtime`` over processes. ``folder`` holds the attempts, ``homes`` their home folders, which users other than
    the agent's must be able to reach."""

    name = "process"
    isolation = ISOLATION
    profiles = False
    notice = "this task runs as a plain process of its node: not isolated, and its image is not used"

    def __init__(self, *, cluster: str, node: str, folder: Path, homes: Path) -> None:
        self._cluster, self._node = cluster, node
        self._folder, self._homes = folder, homes
        self._closed = threading.Event()
        self._ends: ProcessWatch | None = None
        self._sigterms = SigtermSequence()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        homes.mkdir(parents=True, exist_ok=True, mode=0o711)

    def found(self) -> dict[str, RuntimeContainer]:
        places = (path.name for path in self._folder.iterdir())
        return {found.attempt: found for name in places if (found := self.find(name)) is not None}

    def find(self, attempt: str) -> RuntimeContainer | None:
        folder = self._folder / attempt
        meta = _read(folder / "meta.json")
        if meta is None or (meta["cluster"], meta["node"]) != (self._cluster, self._node):
            return None
        status, ending, ended_ms = _state(folder)
        started = _read(folder / "child.json") or {}
        return RuntimeContainer(
            attempt=attempt,
            container=attempt,
            spec_hash=meta["spec"],
            status=status,
            gpus=tuple(meta["gpus"]),
            digest=meta["digest"],
            started_ms=started.get("started_ms"),
            ended_ms=ended_ms,
            ending=ending,
        )

    def image(
        self,
        spec: ContainerSpec,
        *,
        mirrors: Mapping[str, str],
        progress: Callable[[Progress], None],
        cancelled: Callable[[], bool],
    ) -> Image:
        """Nothing to do: tasks run on the machine's own files."""
        return Image(digest=spec.digest or "process", reference=spec.image)

    def code_folder(self, spec: ContainerSpec) -> CodeFolder:
        owner = _owner(spec)
        place = self._workspace(spec.attempt)
        return CodeFolder(folder=place, uid=owner.get("uid"), gid=owner.get("gid"), mode=0o700)

    def create(self, spec: ContainerSpec, spec_hash: str, image: Image) -> RuntimeContainer:
        ports_check(spec)
        folder = self._folder / spec.attempt
        (folder / "out").mkdir(parents=True, exist_ok=True)
        meta = {
            **{"cluster": self._cluster, "node": self._node, "job": spec.job, "attempt": spec.attempt},
            **{"spec": spec_hash, "gpus": spec.gpus, "digest": image.digest},
        }
        wrapper.write_once(folder / "meta.json", meta)
        found = self.find(spec.attempt)
        if found is None:
            raise AttemptFailed(Cause.ENGINE_FAULT, wordings.OTHER_AGENT())
        return found

    def start(self, spec: ContainerSpec) -> RuntimeContainer:
        folder = self._folder / spec.attempt
        if not (folder / "wrapper.json").exists():
            try:
                self._launch(spec, folder)
            except OSError as error:
                cause = Cause.NO_SPACE if error.errno == errno.ENOSPC else Cause.ENGINE_FAULT
                raise AttemptFailed(cause, wordings.NO_PROCESS(why=error.strerror)) from error
        self._await_start(folder)
        self._watch_process(spec.attempt)
        found = self.find(spec.attempt)
        if found is None:
            raise AttemptFailed(Cause.VANISHED, wordings.FOLDER_GONE())
        if found.ending is not None and found.ending.error:
            raise AttemptFailed(Cause.INVALID, wordings.NO_COMMAND(why=found.ending.error))
        return found

    def signal(self, attempt: str, number: int) -> None:
        folder = self._folder / attempt
        if number == signal.SIGTERM:
            self._sigterms.begin(attempt, _sigterm_targets(folder))
        else:
            _send_all(folder, number)

    def signal_pipe_readers(self, attempt: str, *, last: bool) -> bool:
        return self._sigterms.rest(attempt, _sigterm_targets(self._folder / attempt), last=last)

    def write_notice(self, attempt: str, text: str) -> None:
        notice_write(self._notice_folder(attempt), text)

    def remove_notice(self, attempt: str) -> None:
        notice_remove(self._notice_folder(attempt))

    def write_peers(self, attempt: str, text: str) -> None:
        notice_write(self._notice_folder(attempt), text, PEERS_NAME)

    def remove(self, attempt: str) -> None:
        folder = self._folder / attempt
        while _alive(folder):
            _send_all(folder, signal.SIGKILL)
            self._closed.wait(0.02)
        self._sigterms.forget(attempt)
        (folder / "meta.json").unlink(missing_ok=True)
        for made in (folder, self._homes / attempt, self._notice_folder(attempt)):
            folder_remove_or_log(made)
        workspace_remove(self._workspace(attempt))

    def source(self, attempt: str) -> ProcessOutput:
        folder = self._folder / attempt
        return ProcessOutput(folder, lambda: _alive(folder) is None, lambda number: _send_all(folder, number))

    def shell(self, request: ShellRequest) -> ProcessShell:
        folder = self._folder / request.attempt
        task = _read(folder / "child.json")
        if task is None or _alive(folder) is None:
            raise AttemptFailed(Cause.INVALID, "The task does not run on this node any more")
        workspace = self._workspace(request.attempt)
        begins = workspace if workspace.exists() else self._homes / request.attempt
        return ProcessShell(request, task=task["pid"], folder=begins, runs=lambda: _alive(folder) is not None)

    def ssh_keys(self, attempt: str, text: str) -> None:
        """Nothing to do: there is no SSH server."""

    def ssh_open(self, attempt: str, port: int) -> SshServer:
        return SshServer(message=wordings.NO_CONTAINER())

    def end_leftover_shells(self) -> None:
        """Nothing to do: they ended with the agent whose children they were."""

    def watch(self, changed: Callable[[str], None]) -> None:
        self._ends = ProcessWatch(changed)
        for attempt, found in self.found().items():
            if found.status is Status.RUNNING:
                self._watch_process(attempt)

    def owner(self, pid: int) -> str | None:
        wrappers = {
            data["pid"]: path.parent.name for path in self._folder.glob("*/wrapper.json") if (data := _read(path))
        }
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            for parent in (process, *process.parents()):
                if parent.pid in wrappers:
                    return wrappers[parent.pid]
        return None

    def belongs(self, pid: int, container: str) -> bool:
        with contextlib.suppress(psutil.Error):
            return psutil.Process(pid).environ().get(ATTEMPT_VARIABLE) == container
        return False

    def usage(self) -> dict[str, Usage]:
        return {
            name: _usage(self._folder / name) for name, found in self.found().items() if found.status is Status.RUNNING
        }

    def freezer(self) -> None:
        """Only containers are parked."""

    def store(self) -> None:
        """No store: there are no images."""
        return

    def facts(self) -> RuntimeFacts:
        return RuntimeFacts(engine="", capabilities=(), disk=str(self._folder))

    def close(self) -> None:
        self._closed.set()
        if self._ends is not None:
            self._ends.close()

    def _launch(self, spec: ContainerSpec, folder: Path) -> None:
        home = self._home(spec)
        order = {
            "command": script_command(),
            "env": self._environment(spec, home),
            "folder": str(self._workspace(spec.attempt) if spec.code else home),
            "limits": _limits(spec),
            **_owner(spec),
        }
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", wrapper.__file__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=(folder / "wrapper.log").open("ab"),
            start_new_session=True,
            cwd="/",
        )
        assert process.stdin is not None
        with process.stdin as pipe, contextlib.suppress(BrokenPipeError):
            pipe.write(json.dumps(order).encode())
        threading.Thread(target=process.wait, name="process-reap", daemon=True).start()

    def _await_start(self, folder: Path) -> None:
        """Waits until the wrapper has started the command or says why not."""
        for _ in range(int(_START_DEADLINE_S / 0.005)):
            if (folder / "child.json").exists() or (folder / "exit.json").exists():
                return
            self._closed.wait(0.005)
        raise AttemptFailed(Cause.ENGINE_FAULT, wordings.NO_WRAPPER())

    def _home(self, spec: ContainerSpec) -> Path:
        return self._folder_for(spec, self._homes / spec.attempt)

    def _folder_for(self, spec: ContainerSpec, folder: Path) -> Path:
        """Makes a folder owned by the task's user."""
        folder.mkdir(exist_ok=True, mode=0o700)
        owner = _owner(spec)
        if owner:
            os.chown(folder, owner["uid"], owner["gid"])
        return folder

    def _workspace(self, attempt: str) -> Path:
        """The folder of the job's code, if it has any."""
        return self._homes / f"{attempt}.workspace"

    def _notice_folder(self, attempt: str) -> Path:
        """Beside the home, whose owner may not write here where it is not the agent's own uid."""
        return self._homes / f"{attempt}.notice"

    def _environment(self, spec: ContainerSpec, home: Path) -> dict[str, str]:
        """The spec's variables, with paths inside mounts and the job's code replaced by the node's own."""
        places = {mount.target: mount.source for mount in spec.mounts}
        if (own := own_job_folder(spec)) is not None:
            places[own] = str(self._folder_for(spec, home / "job"))
        if spec.code:
            places[spec.workdir] = str(self._workspace(spec.attempt))
        env = {name: on_node(places, value) for name, value in spec.env.items() if not name.startswith("NVIDIA_")}
        env |= {"HOME": str(home), "USER": spec.user_name, ATTEMPT_VARIABLE: spec.attempt}
        env |= {"PATH": env.get("PATH", os.defpath + ":/usr/local/bin"), "CUDA_VISIBLE_DEVICES": ",".join(spec.gpus)}
        env[NOTICE_VARIABLE] = str(self._notice_folder(spec.attempt) / NOTICE_NAME)
        if PEERS_VARIABLE in env:
            env[PEERS_VARIABLE] = str(self._notice_folder(spec.attempt) / PEERS_NAME)
        if spec.job_dir is not None:
            env["BERTH_JOB_DIR"] = on_node(places, spec.job_dir)
        if lease_location(spec) is not None:
            env["BERTH_LEASE"] = str(spec.lease)
        return env | script_environment(spec.script)

    def _watch_process(self, attempt: str) -> None:
        claim = _read(self._folder / attempt / "wrapper.json")
        if self._ends is not None and claim is not None:
            self._ends.add(attempt, claim["pid"])


def on_node(places: Mapping[str, str], value: str) -> str:
    """``value`` with a path inside one of the task's folders replaced by the path on the node."""
    if not value.startswith("/"):
        return value
    path = PurePosixPath(value)
    for target in sorted(places, key=len, reverse=True):
        if path.is_relative_to(target):
            return str(PurePosixPath(places[target]) / path.relative_to(target))
    return value


def _owner(spec: ContainerSpec) -> dict[str, Any]:
    """The uid that the command runs under: never the agent's own where that is root."""
    if os.geteuid() != 0:
        return {}
    if spec.uid == 0:
        return {"uid": NOBODY, "gid": NOBODY, "groups": []}
    return {"uid": spec.uid, "gid": spec.gid, "groups": list(spec.groups)}


def _limits(spec: ContainerSpec) -> dict[str, int]:
    """rlimits: private memory stands in for the container's memory limit."""
    return {"RLIMIT_DATA": spec.limits.memory_mb << 20, "RLIMIT_CORE": 0, "RLIMIT_NOFILE": 1 << 20}


def _read(path: Path) -> dict[str, Any] | None:
    try:
        data: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return data


def _alive(folder: Path) -> psutil.Process | None:
    """The wrapper while it runs: pid and start time must both be its own."""
    claim = _read(folder / "wrapper.json")
    if claim is None:
        return None
    with contextlib.suppress(psutil.Error, OSError, IndexError):
        process = psutil.Process(claim["pid"])
        if wrapper.start_time(claim["pid"]) == claim["start"] and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def _state(folder: Path) -> tuple[Status, ContainerExit | None, int | None]:
    """(status, ending, end in unix ms) from the files: the end is written before the wrapper goes."""
    if not (folder / "wrapper.json").exists():
        return Status.CREATED, None, None
    alive = _alive(folder) is not None
    end = _read(folder / "exit.json")
    if end is not None:
        return Status.ENDED, ContainerExit(code=end["code"], error=end["error"]), end["ended_ms"]
    if alive:
        return Status.RUNNING, None, None
    return Status.ENDED, ContainerExit(code=None, error="its wrapper was killed"), None


def _sigterm_targets(folder: Path) -> list[psutil.Process]:
    """Processes that get SIGTERM."""
    child, process = _read(folder / "child.json"), _alive(folder)
    with contextlib.suppress(psutil.Error):
        if child is not None and process is not None:
            return sigterm_targets(process.children(recursive=True), child["pid"])
    return []


def _send_all(folder: Path, number: int) -> None:
    """Signals every process below the wrapper, whatever group or session it went to."""
    process = _alive(folder)
    if process is not None:
        with contextlib.suppress(psutil.Error):
            for child in process.children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    child.send_signal(number)


def _usage(folder: Path) -> Usage:
    cpu, memory = 0.0, 0
    process = _alive(folder)
    with contextlib.suppress(psutil.Error):
        for child in process.children(recursive=True) if process else ():
            with contextlib.suppress(psutil.Error):
                times = child.cpu_times()
                cpu += times.user + times.system + times.children_user + times.children_system
                memory += child.memory_info().rss
    return Usage(cpu_s=cpu, memory_mb=memory >> 20)
