"""The ``docker`` runtime: containers on the local Docker Engine. Only this package talks to Docker."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import docker
import psutil
import structlog
from docker.errors import APIError, NotFound
from docker.types import CancellableStream

from nodes.agent.disk.image_use import ImageUses
from nodes.agent.hardware.numa import cpus_near
from nodes.agent.log_throttle import LogThrottle
from nodes.agent.runtimes.base import (
    AttemptFailed,
    CodeFolder,
    Image,
    RuntimeContainer,
    RuntimeFacts,
    RuntimeUnavailable,
    Status,
    Usage,
)
from nodes.agent.runtimes.cgroups import cgroup_container, cgroup_denies_gpus, cgroup_usage
from nodes.agent.runtimes.docker.accounts import AccountFiles
from nodes.agent.runtimes.docker.client import EngineClient, engine_client
from nodes.agent.runtimes.docker.container_config import RAISED_LIMITS, NodeFacts, creation, entrypoint_told
from nodes.agent.runtimes.docker.container_state import container_inspected, container_listed, status_of
from nodes.agent.runtimes.docker.disk import DockerStore
from nodes.agent.runtimes.docker.faults import engine_errors, engine_failures, failure_of, limit_refused, sent_in_vain
from nodes.agent.runtimes.docker.folders import disk_folder, image_folder
from nodes.agent.runtimes.docker.forgotten import FORGOTTEN, end_forgotten
from nodes.agent.runtimes.docker.gpu_requests import cdi_devices
from nodes.agent.runtimes.docker.images import ImageResolver, entrypoint_of
from nodes.agent.runtimes.docker.logs import DockerOutput
from nodes.agent.runtimes.docker.lost_exits import made_before, status_lost
from nodes.agent.runtimes.docker.open_lines import OpenLines
from nodes.agent.runtimes.docker.shell import DockerShell, exec_end, left_behind
from nodes.agent.runtimes.docker.socket import engine_age_s
from nodes.agent.runtimes.docker.ssh import ssh_start
from nodes.agent.runtimes.ports import ports_check
from nodes.agent.runtimes.sigterm import SigtermSequence, sigterm_targets
from nodes.agent.runtimes.ssh import KEYS_NAME, OPEN_WITHIN_S
from nodes.agent.runtimes.stop_notice import NOTICE_TARGET, notice_folder, notice_remove, notice_write
from nodes.agent.storage.folders import own_job_folder
from nodes.agent.storage.workspace import workspace_remove
from nodes.protocol.messages import ContainerSpec, GpuInfo, Progress, SshServer
from nodes.protocol.names import LABEL, container_name
from nodes.protocol.sessions import ShellRequest
from nodes.protocol.states import Cause

log = structlog.get_logger(__name__)

_TIMEOUT_S = 60
_FACTS_TIMEOUT_S = 5
GPU_LOOK_EVERY_S = 120.0
"""How often is looked whether a running container may still open its GPUs."""
_POOL = 64
_EVENTS_AGAIN_S = 1.0
_INFINIBAND = Path("/sys/class/infiniband")
"""The server's adapters, which every container sees; an agent in one has no ``/dev/infiniband`` of its own."""
_NO_INFINIBAND = "this server has no InfiniBand adapter: the container gets no device of one"


class DockerRuntime:
    """``Runtime`` over one Engine. ``gpus`` are the node's, for CPUs near them; ``simulated`` ones need no device;
    ``raises_limits``: the Engine may raise resource limits, as far as the machine tells; ``notices`` and
    ``workspaces``: the folders for the notices and the code of attempts, at the same paths for the Engine;
    ``images``: the file that tells when each image was used last; ``tls``: the folder with the
    Engine's certificates, where it is asked by them; ``note`` writes a line into an attempt's log;
    ``infiniband``: the folder that lists the server's adapters."""

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
        self._cluster, self._node, self._url, self._tls = cluster, node, url, tls
        self._gpus, self._simulated = gpus, simulated
        self._notices, self._workspaces = notices, workspaces
        self._uses = ImageUses(images)
        self._note, self._infiniband = note, infiniband
        self._lock = threading.Lock()
        self._client: docker.APIClient | None = None
        self._cdi: frozenset[str] = frozenset()
        self._alive: dict[str, tuple[str, int]] = {}  # attempt -> (container id, host pid of its first process)
        self._gpu_looks: dict[str, tuple[float, bool]] = {}
        self._equipped: set[str] = set()
        self._unfinished: dict[str, OpenLines] = {}
        self._terms = SigtermSequence()
        self._raises_limits = raises_limits
        self._closed = threading.Event()
        self._events: CancellableStream[dict[str, Any]] | None = None

    # ------------------------------------------------------------ what there is

    def found(self) -> dict[str, RuntimeContainer]:
        labels = [f"{LABEL.CLUSTER}={self._cluster}", f"{LABEL.NODE}={self._node}"]
        with engine_failures():
            listed = self._engine().containers(all=True, filters={"label": labels})
        return {one.attempt: one for one in map(container_listed, listed) if one.attempt}

    def find(self, attempt: str) -> RuntimeContainer | None:
        details = self._inspect(attempt)
        if details is None:
            self._gone(attempt)
            return None
        found = container_inspected(details, status_lost=self._status_lost(details))
        if found.status is Status.RUNNING:
            pid = int(details["State"]["Pid"])
            self._alive[attempt] = (found.container, pid)
            found = replace(found, gpus_denied=bool(found.gpus) and not self._simulated and self._denied(attempt, pid))
        else:
            self._gone(attempt)
        return found

    def _gone(self, attempt: str) -> None:
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
            return status_lost(self._engine(), details, engine_age_s(self._url))

    def owner(self, pid: int) -> str | None:
        container = cgroup_container(pid)
        return next((attempt for attempt, (own, _) in self._alive.copy().items() if own == container), None)

    def belongs(self, pid: int, container: str) -> bool:
        return cgroup_container(pid) == container

    def usage(self) -> dict[str, Usage]:
        readings = ((attempt, cgroup_usage(pid)) for attempt, (_, pid) in self._alive.copy().items())
        return {attempt: usage for attempt, usage in readings if usage is not None}

    def facts(self) -> RuntimeFacts:
        with engine_failures(), closing(self._connect(_FACTS_TIMEOUT_S)) as client:
            info = client.info()
        self._cdi = cdi_devices(info)
        return RuntimeFacts(
            engine=f"docker {info['ServerVersion']}",
            capabilities=("docker", "cdi") if self._cdi else ("docker",),
            disk=disk_folder(info),
            images=image_folder(info),
        )

    # ------------------------------------------------------------ from an image to a running container

    def image(
        self,
        spec: ContainerSpec,
        *,
        mirrors: Mapping[str, str],
        progress: Callable[[Progress], None],
        cancelled: Callable[[], bool],
    ) -> Image:
        finder = ImageResolver(self._engine(), self._connect, self._uses)
        return finder.find(spec, mirrors=mirrors, progress=progress, cancelled=cancelled)

    def code_folder(self, spec: ContainerSpec) -> CodeFolder:
        uid, gid = (spec.uid, spec.gid) if spec.profile == "user" else (0, 0)
        return CodeFolder(folder=self._workspaces / spec.attempt, uid=uid, gid=gid, mode=0o755)

    def create(self, spec: ContainerSpec, spec_hash: str, image: Image) -> RuntimeContainer:
        ports_check(spec)
        found = self._create(spec, spec_hash, image.reference)
        if spec.limits.infiniband and not _has_entries(self._infiniband):
            self._note(spec.attempt, _NO_INFINIBAND)
        if told := entrypoint_told(entrypoint_of(self._engine(), image.reference)):
            self._note(spec.attempt, told)
        return found

    def _create(self, spec: ContainerSpec, spec_hash: str, reference: str) -> RuntimeContainer:
        made = creation(spec, spec_hash, reference, self._node_facts())
        notice_folder(self._notices / spec.attempt)
        client = self._engine()
        with engine_errors():
            try:
                client.create_container(**made.container, host_config=client.create_host_config(**made.host))
            except APIError as error:
                if error.status_code != 409:
                    raise failure_of(error) from error
        self._equip(spec)
        self._image_used(spec.attempt)
        found = self.find(spec.attempt)
        if found is None:
            raise AttemptFailed(
                Cause.ENGINE_FAULT, f"a container of another owner is named {container_name(spec.attempt)}"
            )
        return found

    def _image_used(self, attempt: str) -> None:
        details = self._inspect(attempt)
        if details is not None:
            self._uses.note([str(details["Image"])], int(time.time() * 1000))

    def store(self) -> DockerStore:
        labels = self._cluster, self._node
        return DockerStore(self._engine(), self._connect, self._uses, labels, self._workspaces)

    def start(self, spec: ContainerSpec) -> RuntimeContainer:
        found = self.find(spec.attempt)
        if found is None:
            raise AttemptFailed(Cause.VANISHED, "its container is gone without our doing")
        if found.status is Status.CREATED:
            if self._end_forgotten(spec.attempt):
                raise AttemptFailed(Cause.ENGINE_FAULT, FORGOTTEN)
            notice_folder(self._notices / spec.attempt)
            self._equip(spec)
            self._unfinished_of(spec.attempt).attach(started=False)
            self._start(spec, found)
        return self.find(spec.attempt) or found

    def _end_forgotten(self, attempt: str) -> bool:
        """Only what was never started is started, or goes without being ended, whatever the Engine has forgotten."""
        details = self._inspect(attempt)
        if details is None or status_of(details["State"]["Status"]) is not Status.CREATED:
            return False
        with engine_errors():
            may_be = made_before(self._engine(), details, engine_age_s(self._url))
        return may_be and end_forgotten(details["Id"])

    def _start(self, spec: ContainerSpec, found: RuntimeContainer) -> None:
        with engine_errors():
            try:
                self._engine().start(found.container)
            except APIError as error:
                if not (limit_refused(error) and self._asks_for_limits(found)):
                    raise failure_of(error) from error
                self._start_with_own_limits(spec, found)

    def _asks_for_limits(self, found: RuntimeContainer) -> bool:
        """Also one that was made before another container's start taught us that the Engine cannot raise any."""
        ulimits = self._engine().inspect_container(found.container)["HostConfig"]["Ulimits"] or ()
        return any(limit["Name"] in RAISED_LIMITS for limit in ulimits)

    def _start_with_own_limits(self, spec: ContainerSpec, found: RuntimeContainer) -> None:
        """An Engine without CAP_SYS_RESOURCE cannot raise limits: once it said so, containers go without."""
        log.warning("the Engine cannot raise resource limits: containers keep its own for locked memory and files")
        self._raises_limits = False
        reference = self._engine().inspect_container(found.container)["Config"]["Image"]
        self._remove(spec.attempt)
        self._start(spec, self._create(spec, found.spec_hash, reference))

    def signal(self, attempt: str, number: int) -> None:
        name = container_name(attempt)
        with engine_errors():
            client = self._engine()
            try:
                if number == signal.SIGTERM and client.inspect_container(name)["State"].get("Paused"):
                    client.unpause(name)
                if number == signal.SIGTERM and self._terms.begin(attempt, self._told(attempt)):
                    return
                client.kill(name, signal=number)
            except APIError as error:
                if error.status_code not in (404, 409) and not sent_in_vain(error):
                    raise RuntimeUnavailable(f"the Engine cannot send a signal: {error.explanation}") from error

    def signal_pipe_readers(self, attempt: str, *, last: bool) -> bool:
        with suppress(RuntimeUnavailable):
            return self._terms.rest(attempt, self._told(attempt), last=last)
        return True

    def _told(self, attempt: str) -> list[psutil.Process]:
        """Who is told to end, below the container's init; nobody where these processes are not seen from
        here."""
        details = self._inspect(attempt)
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

    def remove(self, attempt: str) -> None:
        if self._inspect(attempt) is not None:
            self._end_forgotten(attempt)
            self._remove(attempt)
        shutil.rmtree(self._notices / attempt, ignore_errors=True)
        workspace_remove(self._workspaces / attempt)

    def _remove(self, attempt: str) -> None:
        with engine_errors():
            try:
                self._engine().remove_container(container_name(attempt), v=True, force=True)
            except APIError as error:
                if error.status_code != 404:
                    raise RuntimeUnavailable(f"the Engine cannot remove the container: {error.explanation}") from error
        self._gone(attempt)
        self._equipped.discard(attempt)
        self._terms.forget(attempt)
        if (heard := self._unfinished.pop(attempt, None)) is not None:
            heard.close()

    def source(self, attempt: str) -> DockerOutput:
        age = partial(engine_age_s, self._url)
        return DockerOutput(container_name(attempt), lambda: self._connect(None), age, self._unfinished_of(attempt))

    def _unfinished_of(self, attempt: str) -> OpenLines:
        fresh = OpenLines(container_name(attempt), lambda: self._connect(_TIMEOUT_S))
        return self._unfinished.setdefault(attempt, fresh)

    # ------------------------------------------------------------ shells

    def shell(self, request: ShellRequest) -> DockerShell:
        return DockerShell(self._connect(_TIMEOUT_S), request)

    def end_leftover_shells(self) -> None:
        running = [one.container for one in self.found().values() if one.status is Status.RUNNING]
        for container in running:
            for program in left_behind(self._engine(), container):
                exec_end(self._engine(), program)

    def ssh_keys(self, attempt: str, text: str) -> None:
        notice_write(self._notices / attempt, text, KEYS_NAME)

    def ssh_open(self, attempt: str, port: int) -> SshServer:
        return ssh_start(self._connect(int(OPEN_WITHIN_S)), attempt, port, f"{NOTICE_TARGET}/{KEYS_NAME}")

    # ------------------------------------------------------------ events and end

    def watch(self, changed: Callable[[str], None]) -> None:
        threading.Thread(target=self._watch, args=(changed,), name="docker-events", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        for heard in self._unfinished.copy().values():
            heard.close()
        events = self._events
        if events is not None:
            with suppress(Exception):
                events.close()

    def _watch(self, changed: Callable[[str], None]) -> None:
        labels = [f"{LABEL.CLUSTER}={self._cluster}", f"{LABEL.NODE}={self._node}"]
        filters = {"type": "container", "label": labels, "event": ["start", "die", "destroy"]}
        throttle = LogThrottle()
        while not self._closed.is_set():
            try:
                with engine_failures():
                    self._events = self._engine().events(filters=filters, decode=True)
                    throttle.over()
                    for event in self._events:
                        changed(str(event["Actor"]["Attributes"].get(LABEL.ATTEMPT, "")))
            except RuntimeUnavailable as away:
                if throttle.new(away.message):
                    log.info("events broke off", error=away.message)
            self._closed.wait(_EVENTS_AGAIN_S)

    # ------------------------------------------------------------ the Engine

    def _engine(self) -> docker.APIClient:
        """The client for short calls, made at the first one."""
        with self._lock:
            if self._client is None:
                with engine_failures():
                    self._client = engine_client(self._url, timeout=_TIMEOUT_S, pool=_POOL, tls=self._tls)
                    name = f"berth-look-{self._cluster}-{self._node}"
                    self._accounts = AccountFiles(self._client, name, self._workspaces)
            return self._client

    def _connect(self, timeout: float | None) -> docker.APIClient:
        """A client of its own for a call that may block."""
        version = self._engine().api_version
        return EngineClient(self._url, tls=self._tls, version=version, timeout=timeout)

    def _inspect(self, attempt: str) -> dict[str, Any] | None:
        """The container of the attempt, if it is this cluster's and this node's."""
        with engine_failures():
            try:
                details: dict[str, Any] = self._engine().inspect_container(container_name(attempt))
            except NotFound:
                return None
        own = details["Config"]["Labels"] or {}
        ours = (own.get(LABEL.CLUSTER), own.get(LABEL.NODE)) == (self._cluster, self._node)
        return details if ours else None

    def _equip(self, spec: ContainerSpec) -> None:
        """Gives a created container its user and folders, once; also one that an earlier agent left half made."""
        if spec.attempt in self._equipped or (spec.profile != "user" and own_job_folder(spec) is None):
            return
        with engine_errors():
            details = self._inspect(spec.attempt)
            if details is None:
                return
            try:
                self._accounts.put(spec, details["Id"], details["Image"])
            except APIError as error:
                raise failure_of(error) from error
        self._equipped.add(spec.attempt)

    def _node_facts(self) -> NodeFacts:
        return NodeFacts(
            cluster=self._cluster,
            node=self._node,
            notices=str(self._notices),
            workspaces=str(self._workspaces),
            cdi=self._cdi,
            simulated=self._simulated,
            cpus_of=cpus_near(self._gpus()),
            raises_limits=self._raises_limits,
            infiniband=_has_entries(self._infiniband),
        )


def _has_entries(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except OSError:
        return False
