"""Launch of containers: created from an image, given their users and folders, and started once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog
from docker.errors import APIError

from nodes.agent.disk.image_use import ImageUses
from nodes.agent.hardware.numa import cpus_near
from nodes.agent.runtimes.base import AttemptFailed, RuntimeContainer, Status
from nodes.agent.runtimes.docker.accounts import AccountFiles
from nodes.agent.runtimes.docker.container_config import RAISED_LIMITS, NodeFacts, container_options, entrypoint_told
from nodes.agent.runtimes.docker.container_state import status_of
from nodes.agent.runtimes.docker.engine import Engine
from nodes.agent.runtimes.docker.faults import engine_errors, failure_of, limit_refused
from nodes.agent.runtimes.docker.forgotten import end_forgotten
from nodes.agent.runtimes.docker.images import entrypoint_of
from nodes.agent.runtimes.docker.lost_exits import made_before
from nodes.agent.runtimes.docker.open_lines import OpenLines
from nodes.agent.runtimes.ports import ports_check
from nodes.agent.runtimes.stop_notice import notice_folder
from nodes.agent.storage.folders import own_job_folder
from nodes.protocol import wordings
from nodes.protocol.messages import ContainerSpec, GpuInfo
from nodes.protocol.names import container_name
from nodes.protocol.states import Cause

log = structlog.get_logger(__name__)

_NO_INFINIBAND = "this server has no InfiniBand adapter: the container gets no device of one"


class ContainerLauncher:
    """Creates and starts the containers of one node. ``find`` and ``remove`` are the runtime's; ``open_lines`` gives
    the listener for a container's unfinished lines, which attaches before the start. The others: see
    ``DockerRuntime``. ``cdi``: the GPUs that the Engine knows by CDI."""

    def __init__(
        self,
        engine: Engine,
        *,
        gpus: Callable[[], Iterable[GpuInfo]],
        simulated: bool,
        raises_limits: bool,
        notices: Path,
        workspaces: Path,
        uses: ImageUses,
        note: Callable[[str, str], None],
        infiniband: Path,
        find: Callable[[str], RuntimeContainer | None],
        remove: Callable[[str], None],
        open_lines: Callable[[str], OpenLines],
    ) -> None:
        self._engine, self._gpus, self._simulated = engine, gpus, simulated
        self._raises_limits = raises_limits
        self._notices, self._workspaces, self._uses = notices, workspaces, uses
        self._note, self._infiniband = note, infiniband
        self._find, self._remove, self._open_lines = find, remove, open_lines
        self._accounts = AccountFiles(engine.client, f"berth-look-{engine.cluster}-{engine.node}", workspaces)
        self._equipped: set[str] = set()
        self.cdi: frozenset[str] = frozenset()

    def create(self, spec: ContainerSpec, spec_hash: str, reference: str) -> RuntimeContainer:
        ports_check(spec)
        found = self._create(spec, spec_hash, reference)
        if spec.limits.infiniband and not _has_entries(self._infiniband):
            self._note(spec.attempt, _NO_INFINIBAND)
        if note := entrypoint_told(entrypoint_of(self._engine.client(), reference)):
            self._note(spec.attempt, note)
        return found

    def start(self, spec: ContainerSpec) -> RuntimeContainer:
        found = self._find(spec.attempt)
        if found is None:
            raise AttemptFailed(Cause.VANISHED, wordings.CONTAINER_GONE())
        if found.status is Status.CREATED:
            if self.end_forgotten(spec.attempt):
                raise AttemptFailed(Cause.ENGINE_FAULT, wordings.FORGOTTEN())
            notice_folder(self._notices / spec.attempt)
            self._equip(spec)
            self._open_lines(spec.attempt).attach(started=False)
            self._start(spec, found)
        return self._find(spec.attempt) or found

    def end_forgotten(self, attempt: str) -> bool:
        """Ends what runs of a container that the Engine calls created but has started before. Whether there was any:
        only what was never started is started, or removed without being ended."""
        details = self._engine.inspect(attempt)
        if details is None or status_of(details["State"]["Status"]) is not Status.CREATED:
            return False
        with engine_errors():
            may_be = made_before(self._engine.client(), details, self._engine.age_s())
        return may_be and end_forgotten(details["Id"])

    def forget(self, attempt: str) -> None:
        """Drops what is known of a removed container."""
        self._equipped.discard(attempt)

    def _create(self, spec: ContainerSpec, spec_hash: str, reference: str) -> RuntimeContainer:
        made = container_options(spec, spec_hash, reference, self._node_facts())
        notice_folder(self._notices / spec.attempt)
        client = self._engine.client()
        with engine_errors():
            try:
                client.create_container(**made.container, host_config=client.create_host_config(**made.host))
            except APIError as error:
                if error.status_code != 409:
                    raise failure_of(error) from error
        self._equip(spec)
        if (details := self._engine.inspect(spec.attempt)) is not None:
            self._uses.note([str(details["Image"])], int(time.time() * 1000))
        found = self._find(spec.attempt)
        if found is None:
            message = wordings.NAME_TAKEN(name=container_name(spec.attempt))
            raise AttemptFailed(Cause.ENGINE_FAULT, message)
        return found

    def _start(self, spec: ContainerSpec, found: RuntimeContainer) -> None:
        with engine_errors():
            try:
                self._engine.client().start(found.container)
            except APIError as error:
                if not (limit_refused(error) and self._asks_for_limits(found)):
                    raise failure_of(error) from error
                self._start_with_own_limits(spec, found)

    def _asks_for_limits(self, found: RuntimeContainer) -> bool:
        """Also one that was created before another container's start showed that the Engine cannot raise any."""
        ulimits = self._engine.client().inspect_container(found.container)["HostConfig"]["Ulimits"] or ()
        return any(limit["Name"] in RAISED_LIMITS for limit in ulimits)

    def _start_with_own_limits(self, spec: ContainerSpec, found: RuntimeContainer) -> None:
        """An Engine without CAP_SYS_RESOURCE cannot raise limits: once it said so, containers go without."""
        log.warning("the Engine cannot raise resource limits: containers keep its own for locked memory and files")
        self._raises_limits = False
        reference = self._engine.client().inspect_container(found.container)["Config"]["Image"]
        self._remove(spec.attempt)
        self._start(spec, self._create(spec, found.spec_hash, reference))

    def _equip(self, spec: ContainerSpec) -> None:
        """Gives a created container its user and folders, once; also one that an earlier agent left half made."""
        if spec.attempt in self._equipped or (spec.profile != "user" and own_job_folder(spec) is None):
            return
        with engine_errors():
            details = self._engine.inspect(spec.attempt)
            if details is None:
                return
            try:
                self._accounts.put(spec, details["Id"], details["Image"])
            except APIError as error:
                raise failure_of(error) from error
        self._equipped.add(spec.attempt)

    def _node_facts(self) -> NodeFacts:
        return NodeFacts(
            cluster=self._engine.cluster,
            node=self._engine.node,
            notices=str(self._notices),
            workspaces=str(self._workspaces),
            cdi=self.cdi,
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
