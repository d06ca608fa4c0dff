"""The ``docker`` runtime: containers on the local Docker Engine. Only this package talks to Docker."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
from docker.errors import APIError

from nodes.agent.disk.image_use import ImageUses
from nodes.agent.runtimes.base import (
    CodeFolder,
    Image,
    RuntimeContainer,
    RuntimeFacts,
    RuntimeUnavailable,
    Status,
    Usage,
)
from nodes.agent.runtimes.cgroups import cgroup_container, cgroup_denies_gpus, cgroup_usage
from nodes.agent.runtimes.docker.container_state import container_inspected, container_listed, status_of
from nodes.agent.runtimes.docker.disk import DockerStore
from nodes.agent.runtimes.docker.engine import CALL_TIMEOUT_S, Engine
from nodes.agent.runtimes.docker.events import ContainerEvents
from nodes.agent.runtimes.docker.faults import engine_errors, engine_failures, sent_in_vain
from nodes.agent.runtimes.docker.folders import disk_folder, image_folder
from nodes.agent.runtimes.docker.freezer import DockerFreezer
from nodes.agent.runtimes.docker.gpu_requests import cdi_devices
from nodes.agent.runtimes.docker.images import ImageResolver
from nodes.agent.runtimes.docker.launch import ContainerLauncher
from nodes.agent.runtimes.docker.logs import DockerOutput
from nodes.agent.runtimes.docker.lost_exits import status_lost
from nodes.agent.runtimes.docker.open_lines import OpenLines
from nodes.agent.runtimes.docker.shell import DockerShell, exec_end, left_behind
from nodes.agent.runtimes.docker.ssh import ssh_start
from nodes.agent.runtimes.sigterm import SigtermSequence, sigterm_targets
from nodes.agent.runtimes.ssh import KEYS_NAME, OPEN_WITHIN_S
from nodes.agent.runtimes.stop_notice import NOTICE_TARGET, PEERS_NAME, notice_remove, notice_write
from nodes.agent.storage.workspace import workspace_remove
from nodes.protocol.messages import ContainerSpec, GpuInfo, Progress, SshServer
from nodes.protocol.names import container_name
from nodes.protocol.sessions import ShellRequest

_FACTS_TIMEOUT_S = 5
GPU_LOOK_EVERY_S = 120.0
"""How often is checked whether a running container may still open its GPUs."""
_INFINIBAND = Path("/sys/class/infiniband")
"""The server's adapters, which every container sees; an agent in one has no ``/dev/infiniband`` of its own."""


class DockerRuntime:
    """``Runtime`` over one Engine. ``gpus`` are the node's, for CPUs near them; ``simulated`` ones need no device;
    ``raises_limits``: the Engine may raise resource limits, as far as the machine tells; ``notices`` and
    ``workspaces``: the folders for the notices and the code of attempts, at the same paths for the Engine;
    ``images``: the file that keeps when each image was used last; ``tls``: the folder with the Engine's certificates,
    where it asks for them; ``note`` writes a line into an attempt's log; ``infiniband``: the folder that lists the
    server's adapters."""

    name = "docker"
    isolation = "docker"
    profiles = True
    notice = ""

    def __init__(
        self,
        *,
        cluster: str,
        node: str,
        url: str,
        gpus: Callable[[], Iterable[GpuInfo]],
        simulated: bool,
        raises_limits: bool,
        notices: Path,
        workspaces: Path,
        images: Path,
        tls: Path | None = None,
        note: Callable[[str, str], None] = lambda attempt, text: None,
        infiniband: Path = _INFINIBAND,
    ) -> None:
        self._engine = Engine(url, tls, cluster=cluster, node=node)
        self._events = ContainerEvents(self._engine)
        self._simulated = simulated
        self._notices, self._workspaces = notices, workspaces
        self._uses = ImageUses(images)
        self._alive: dict[str, tuple[str, int]] = {}  # attempt -> (container id, host pid of its first process)
        self._gpu_looks: dict[str, tuple[float, bool]] = {}
        self._open_lines: dict[str, OpenLines] = {}
        self._sigterms = SigtermSequence()
        self._freezer = DockerFreezer(self._engine)
        self._launcher = ContainerLauncher(
            self._engine,
            gpus=gpus,
            simulated=simulated,
            raises_limits=raises_limits,
            notices=notices,
            workspaces=workspaces,
            uses=self._uses,
            note=note,
            infiniband=infiniband,
            find=self.find,
            remove=self._remove,
            open_lines=self._open_lines_of,
        )

    # ------------------------------------------------------------ what there is

    def found(self) -> dict[str, RuntimeContainer]:
        with engine_failures():
            listed = self._engine.client().containers(all=True, filters={"label": self._engine.labels})
        return {one.attempt: one for one in map(container_listed, listed) if one.attempt}

    def find(self, attempt: str) -> RuntimeContainer | None:
        details = self._engine.inspect(attempt)
        if details is None:
            self._forget_process(attempt)
            return None
        found = container_inspected(details, status_lost=self._status_lost(details))
        if found.status is Status.RUNNING:
            pid = int(details["State"]["Pid"])
            self._alive[attempt] = (found.container, pid)
            found = replace(found, gpus_denied=bool(found.gpus) and not self._simulated and self._denied(attempt, pid))
        else:
            self._forget_process(attempt)
        return found

    def _forget_process(self, attempt: str) -> None:
        self._alive.pop(attempt, None)
        self._gpu_looks.pop(attempt, None)

    def _denied(self, attempt: str, pid: int) -> bool:
        looked_at, denied = self._gpu_looks.get(attempt, (float("-inf"), False))
        if time.monotonic() - looked_at >= GPU_LOOK_EVERY_S:
            denied = cgroup_denies_gpus(pid)
            self._gpu_looks[attempt] = time.monotonic(), denied
        return denied

    def _status_lost(self, details: dict[str, Any]) -> bool:
        if status_of(details["State"]["Status"]) is not Status.ENDED:
            return False
        with engine_failures():
            return status_lost(self._engine.client(), details, self._engine.age_s())

    def owner(self, pid: int) -> str | None:
        container = cgroup_container(pid)
        return next((attempt for attempt, (own, _) in self._alive.copy().items() if own == container), None)

    def belongs(self, pid: int, container: str) -> bool:
        return cgroup_container(pid) == container

    def usage(self) -> dict[str, Usage]:
        readings = ((attempt, cgroup_usage(pid)) for attempt, (_, pid) in self._alive.copy().items())
        return {attempt: usage for attempt, usage in readings if usage is not None}

    def facts(self) -> RuntimeFacts:
        with engine_failures(), closing(self._engine.connect(_FACTS_TIMEOUT_S)) as client:
            info = client.info()
        self._launcher.cdi = cdi_devices(info)
        return RuntimeFacts(
            engine=f"docker {info['ServerVersion']}",
            capabilities=("docker", "cdi") if self._launcher.cdi else ("docker",),
            disk=disk_folder(info),
            images=image_folder(info),
        )

    def freezer(self) -> DockerFreezer:
        return self._freezer

    def store(self) -> DockerStore:
        return DockerStore(self._engine, self._uses, self._workspaces)

    # ------------------------------------------------------------ from an image to a removed container

    def image(
        self,
        spec: ContainerSpec,
        *,
        mirrors: Mapping[str, str],
        progress: Callable[[Progress], None],
        cancelled: Callable[[], bool],
    ) -> Image:
        return ImageResolver(self._engine, self._uses).find(
            spec, mirrors=mirrors, progress=progress, cancelled=cancelled
        )

    def code_folder(self, spec: ContainerSpec) -> CodeFolder:
        uid, gid = (spec.uid, spec.gid) if spec.profile == "user" else (0, 0)
        return CodeFolder(folder=self._workspaces / spec.attempt, uid=uid, gid=gid, mode=0o755)

    def create(self, spec: ContainerSpec, spec_hash: str, image: Image) -> RuntimeContainer:
        return self._launcher.create(spec, spec_hash, image.reference)

    def start(self, spec: ContainerSpec) -> RuntimeContainer:
        return self._launcher.start(spec)

    def signal(self, attempt: str, number: int) -> None:
        name = container_name(attempt)
        with engine_errors():
            client = self._engine.client()
            try:
                if number == signal.SIGTERM and client.inspect_container(name)["State"].get("Paused"):
                    client.unpause(name)
                if number == signal.SIGTERM and self._sigterms.begin(attempt, self._sigterm_targets(attempt)):
                    return
                client.kill(name, signal=number)
            except APIError as error:
                if error.status_code not in (404, 409) and not sent_in_vain(error):
                    raise RuntimeUnavailable(f"the Engine cannot send a signal: {error.explanation}") from error

    def signal_pipe_readers(self, attempt: str, *, last: bool) -> bool:
        with suppress(RuntimeUnavailable):
            return self._sigterms.rest(attempt, self._sigterm_targets(attempt), last=last)
        return True

    def _sigterm_targets(self, attempt: str) -> list[psutil.Process]:
        """Processes below the container's init that get SIGTERM; none where they cannot be seen from here."""
        details = self._engine.inspect(attempt)
        with suppress(psutil.Error):
            if details is not None and cgroup_container(pid := details["State"]["Pid"]) == details["Id"]:
                init = psutil.Process(pid)
                command = min(init.children(), key=lambda child: child.create_time(), default=init)
                return sigterm_targets(init.children(recursive=True), command.pid)
        return []

    def write_notice(self, attempt: str, text: str) -> None:
        notice_write(self._notices / attempt, text)

    def remove_notice(self, attempt: str) -> None:
        notice_remove(self._notices / attempt)

    def write_peers(self, attempt: str, text: str) -> None:
        notice_write(self._notices / attempt, text, PEERS_NAME)

    def remove(self, attempt: str) -> None:
        if self._engine.inspect(attempt) is not None:
            self._launcher.end_forgotten(attempt)
            self._remove(attempt)
        shutil.rmtree(self._notices / attempt, ignore_errors=True)
        workspace_remove(self._workspaces / attempt)

    def _remove(self, attempt: str) -> None:
        self._engine.remove(attempt)
        self._forget_process(attempt)
        self._launcher.forget(attempt)
        self._sigterms.forget(attempt)
        self._freezer.release(attempt)
        if (lines := self._open_lines.pop(attempt, None)) is not None:
            lines.close()

    # ------------------------------------------------------------ logs, shells, events

    def source(self, attempt: str) -> DockerOutput:
        lines = self._open_lines_of(attempt)
        return DockerOutput(
            container_name(attempt),
            lambda: self._engine.connect(None),
            self._engine.age_s,
            lines,
            freeze=lambda: self._freezer.log_freeze(attempt),
            thaw=lambda: self._freezer.log_thaw(attempt),
        )

    def _open_lines_of(self, attempt: str) -> OpenLines:
        fresh = OpenLines(container_name(attempt), lambda: self._engine.connect(CALL_TIMEOUT_S))
        return self._open_lines.setdefault(attempt, fresh)

    def shell(self, request: ShellRequest) -> DockerShell:
        return DockerShell(self._engine.connect(CALL_TIMEOUT_S), request)

    def end_leftover_shells(self) -> None:
        running = [one.container for one in self.found().values() if one.status is Status.RUNNING]
        for container in running:
            for program in left_behind(self._engine.client(), container):
                exec_end(self._engine.client(), program)

    def ssh_keys(self, attempt: str, text: str) -> None:
        notice_write(self._notices / attempt, text, KEYS_NAME)

    def ssh_open(self, attempt: str, port: int) -> SshServer:
        return ssh_start(self._engine.connect(int(OPEN_WITHIN_S)), attempt, port, f"{NOTICE_TARGET}/{KEYS_NAME}")

    def watch(self, changed: Callable[[str], None]) -> None:
        self._events.open(changed)

    def close(self) -> None:
        for lines in self._open_lines.copy().values():
            lines.close()
        self._events.close()
