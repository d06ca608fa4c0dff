"""Assembly of the agent: runtime, logs, GPUs, supervisor and reporter, in the order in which they start and end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from celery import Celery

from nodes.agent.attempts.context import NodeServices
from nodes.agent.attempts.journal import Journal, boot_next
from nodes.agent.attempts.reporter import Reporter
from nodes.agent.attempts.supervisor import Supervisor
from nodes.agent.clock import Clock
from nodes.agent.config.options import Options, key_load
from nodes.agent.config.policy import Policy, policy_load
from nodes.agent.contact import Contact
from nodes.agent.disk.guard import GB, DiskGuard, DiskLimits
from nodes.agent.disk.layer_limit import LayerLimit
from nodes.agent.hardware.gpus.base import GpuBackend
from nodes.agent.hardware.gpus.choice import backend_from
from nodes.agent.hardware.gpus.foreign import ForeignWatch
from nodes.agent.hardware.gpus.suspension import Suspension
from nodes.agent.hardware.inventory import InventoryReader
from nodes.agent.hardware.machine import Amounts, Machine
from nodes.agent.hardware.sampler import Sampler
from nodes.agent.listeners.watch import ListenerWatch
from nodes.agent.logs.pipeline import LogPipeline
from nodes.agent.runtimes.base import Runtime, RuntimeUnavailable, Status
from nodes.agent.runtimes.cgroups import machine_raises_limits
from nodes.agent.runtimes.docker.runtime import DockerRuntime
from nodes.agent.runtimes.process.runtime import ProcessRuntime
from nodes.agent.sessions.server import SessionServer
from nodes.agent.storage.code_cache import CodeCache
from nodes.agent.storage.delete_tree import LeftoverFolders
from nodes.agent.storage.mounts import StorageManager, storages_path
from nodes.agent.storage.nosuid import MountGuard
from nodes.protocol.envelope import NodeKey
from nodes.protocol.messages import Desired, Inventory
from nodes.protocol.parking import SUSPEND


class Agent:
    """Everything that runs beside the Celery worker. ``close`` detaches: no container is stopped by it."""

    def __init__(self, options: Options, app: Celery, clock: Clock) -> None:
        key = key_load(options.key_path)
        self._name = (options.cluster, options.name)
        policy = policy_load(options.policy_file, options.mount_roots)
        # Under the other runtime no task is root; what is left are programs that other servers' tasks leave in a mount.
        guards = MountGuard((*policy.mount_roots, options.nfs_root), binds=options.runtime == "docker")
        self._storages = _storages(options, policy, guards, lambda at_once: self._reporter.change(at_once))
        if options.nfs_servers:
            policy = replace(policy, mount_roots=(*policy.mount_roots, options.nfs_root))
        options.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._gpus = backend_from(options.gpus, node=options.name, held=self._held)
        self._runtime = _runtime(options, self._gpus, lambda attempt, text: self._logs.note(attempt, text))
        self._logs = _logs(options, key)
        self._code = CodeCache(options.state_dir / "code", options.code_cache_gb << 30, options.portal_ca)
        machine = _machine(options, self._gpus)
        allowed_mb = None if options.park_gb is None else options.park_gb << 10
        suspension = Suspension(self._gpus, self._runtime, allowed_mb)
        inventory = InventoryReader(
            state=options.state_dir,
            runtime=self._runtime,
            gpus=self._gpus,
            suspension=suspension,
            machine=machine,
            address=options.address,
            interface=options.interface,
            port_first=options.port_range[0],
            port_last=options.port_range[1],
            rack=options.rack,
        )
        self._sampler = Sampler(
            runtime=self._runtime,
            gpus=self._gpus,
            inventory=inventory,
            clock=clock,
            every_s=options.report_every_s,
            foreign=ForeignWatch(options.foreign_after_s),
        )
        self._leftovers = LeftoverFolders(
            options.state_dir / "workspaces", options.state_dir / "process", options.home_dir
        )
        self._disk = DiskGuard(
            runtime=self._runtime,
            limits=_disk_limits(options),
            state=options.state_dir,
            folders={name: options.state_dir / name for name in ("logs", "code", "workspaces")},
            wanted=lambda: self._supervisor.images(),
            layers=lambda taken: self._supervisor.layers(taken),
            graces=lambda: self._supervisor.layer_graces(),
            changed=lambda at_once: self._reporter.change(at_once),
            clock=clock,
            every_s=options.disk_every_s,
        )
        self._listeners = ListenerWatch(
            of_job=lambda pid: self._runtime.owner(pid) is not None,
            held=lambda: self._supervisor.ports(),
            changed=lambda at_once: self._reporter.change(at_once),
            every_s=options.listeners_every_s,
        )
        contact = Contact(clock)
        self._supervisor = Supervisor(
            cluster=options.cluster,
            node=options.name,
            gpus=self._gpus,
            machine=machine,
            services=NodeServices(
                key=key,
                runtime=self._runtime,
                logs=self._logs,
                journal=Journal(options.state_dir / "attempts"),
                code=self._code,
                policy=policy,
                clock=clock,
                contact=contact,
                suspension=suspension,
                lease_still_s=options.lease_still_s,
                # Until the watch for foreign processes has seen what is left of a task, told it, and had it reported.
                gpu_release_timeout_s=options.foreign_after_s + 3 * options.report_every_s,
                shells=options.shells > 0,
                layers=LayerLimit(int(options.layer_gb * GB), options.layer_grace_s),
                disk_full=lambda: self._disk.state.full,
                storage_available=self._storages.is_available,
                guard_mount=lambda mount: guards.guard_now(mount.root, is_mount=mount.must_be_mount),
                changed=lambda at_once: self._reporter.change(at_once),
            ),
        )
        boot = boot_next(options.state_dir / "boot", clock.now_ms())
        self._sessions = SessionServer(
            node=options.name,
            key=key,
            portal_public_key=options.portal_public_key,
            boot=boot,
            redis_url=options.redis_url,
            runtime=self._runtime,
            policy=policy,
            shells=options.shells,
            lease_still_s=options.lease_still_s,
            clock=clock,
        )
        self._reporter = Reporter(
            app=app,
            cluster=options.cluster,
            node=options.name,
            key=key,
            boot=boot,
            view=self._supervisor.view,
            sample=lambda: self._sampler.latest,
            inventory=self._inventory,
            clock=clock,
            contact=contact,
            every_s=options.report_every_s,
            reported=options.state_dir / "reported",
        )

    def open(self) -> None:
        self._storages.open()
        self._sampler.open()
        self._disk.open()
        self._leftovers.open()
        self._supervisor.open()
        self._reporter.open()
        self._sessions.open()
        self._listeners.open()

    def take(self, desired: Desired) -> None:
        if desired.storages is not None and (desired.cluster, desired.node) == self._name:
            self._storages.want(desired.storages)
        self._supervisor.take(desired)

    def close(self) -> None:
        self._listeners.close()
        self._sessions.close()
        self._supervisor.close()
        self._reporter.close()
        self._storages.close()
        self._disk.close()
        self._leftovers.close()
        self._sampler.close()
        self._logs.close()
        self._code.close()
        self._runtime.close()
        self._gpus.close()

    def _inventory(self) -> Inventory:
        """The inventory as last read, with the state of disk and storages, and whether the runtime answers."""
        disk, found, ours = self._disk.state, self._sampler.inventory, self._supervisor.ports()
        storages = self._storages.state
        return replace(
            found,
            ports_busy=tuple(port for port in found.ports_busy if port not in ours),
            disk_full=disk.full,
            largest=disk.largest,
            listeners=self._listeners.state,
            storages=storages.roots,
            storage_faults=dict(storages.faults),
            storages_unguarded=dict(storages.unguarded),
            engine_away=self._supervisor.engine_away(),
            park_mb=self._supervisor.park_mb() if SUSPEND in found.capabilities else 0,
        )

    def _held(self) -> dict[str, str]:
        """The task attempt that runs on each GPU."""
        try:
            found = self._runtime.found().values()
        except RuntimeUnavailable:
            return {}
        return {uuid: one.attempt for one in found if one.status is Status.RUNNING for uuid in one.gpus}


def _machine(options: Options, gpus: GpuBackend) -> Machine:
    if not gpus.simulated:
        return Machine()
    return Machine(Amounts(1000 * options.simulated_cpus, 1024 * options.simulated_memory_gb))


def _runtime(options: Options, gpus: GpuBackend, note: Callable[[str, str], None]) -> Runtime:
    if options.runtime == "process":
        return ProcessRuntime(
            cluster=options.cluster,
            node=options.name,
            folder=options.state_dir / "process",
            homes=options.home_dir,
        )
    return DockerRuntime(
        cluster=options.cluster,
        node=options.name,
        url=options.docker_url,
        tls=options.docker_tls,
        gpus=gpus.inventory,
        simulated=gpus.simulated,
        raises_limits=machine_raises_limits(),
        notices=options.state_dir / "notices",
        workspaces=options.state_dir / "workspaces",
        images=options.state_dir / "images.json",
        note=note,
    )


def _storages(options: Options, policy: Policy, guards: MountGuard, changed: Callable[[bool], None]) -> StorageManager:
    return StorageManager(
        allowed=policy.mount_roots,
        own=options.nfs_root,
        servers=options.nfs_servers,
        state=storages_path(options.state_dir),
        guards=guards,
        changed=changed,
    )


def _disk_limits(options: Options) -> DiskLimits:
    return DiskLimits(
        clean=options.disk_clean,
        clean_percent=options.disk_clean_percent,
        full_percent=options.disk_full_percent,
    )


def _logs(options: Options, key: NodeKey) -> LogPipeline:
    return LogPipeline(
        folder=options.state_dir / "logs",
        node=options.name,
        key=key,
        redis_url=options.redis_url,
        node_limit=options.log_spool_gb << 30,
    )
