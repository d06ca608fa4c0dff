"""Container specs of task attempts, built from rows: sent to nodes, sealed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError
from django.db.models import Case, OuterRef, QuerySet, Subquery, When

from nodes.protocol.messages import Code, ContainerSpec, ImageAuth, Limits, Mount
from nodes.protocol.names import OWN_COMMANDS
from nodes.protocol.states import Phase
from portal.common.prepared import Among, Prepared
from portal.common.sealing import unseal
from portal.files.selectors import JOB_DIR, job_folder_path
from portal.hardware.models import Node
from portal.images.selectors import ImagePatterns
from portal.job_file.images import image_as_root
from portal.job_file.model import JobSpec, StorageMount, TaskRoleSpec
from portal.job_file.secrets import secret_texts
from portal.job_file.templates import render_auth, render_script
from portal.jobs.container import WORKDIR, grace_seconds
from portal.jobs.models import Job, JobAttempt, TaskAttempt
from portal.jobs.services.attempts import LIVE
from portal.node_orders.services.environment import Facts, Peer, environment, shared_variables
from portal.node_orders.services.job_ssh import JOB_SSH_VARIABLE, job_key, job_ssh_script, private_text
from portal.storages.models import Storage
from portal.storages.selectors.storages import roots_of_own_folders

NEEDS_SPEC = {Phase.PREPARE, Phase.RUN}
PIDS_PER_GPU = 4096
BERTH_FOLDER, STEPS = ".berth", "steps"
NOBODY = 65534


class StorageGone(Exception):
    """A job's storage, ``name``, no longer exists in the cluster."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no storage {name}")
        self.name = name


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """Facts shared by all tasks of a job attempt, loaded once. ``as_user``: its images that never run as root."""

    job: Job
    attempt: JobAttempt
    spec: JobSpec
    secrets: Mapping[str, Any]
    peers: tuple[Peer, ...]
    shared: Mapping[str, str]
    storages: Mapping[str, Storage]
    own_folders: frozenset[str]
    as_user: frozenset[str]
    job_storage: Storage | None


def attempts_facts(attempts: Collection[JobAttempt]) -> tuple[dict[int, AttemptFacts], dict[int, Exception]]:
    """Inputs of the specs of these attempts' tasks, by attempt id, and for the others why they cannot be read
    (SealBroken, or whatever is wrong with a stored job). Four queries, none without attempts."""
    if not attempts:
        return {}, {}
    storages = {storage.name: storage for storage in _STORAGES()}
    shared = {
        "storages": storages,
        "own_folders": roots_of_own_folders(),
        "job_storage": next((storage for storage in storages.values() if storage.jobs), None),
    }
    patterns = ImagePatterns()
    placed: dict[int, list[_Placed]] = defaultdict(list)
    for attempt, *row in _NEWEST(attempts=[one.pk for one in attempts]):
        placed[attempt].append(_Placed(*row))
    facts, failed = {}, {}
    for attempt in attempts:
        try:
            facts[attempt.pk] = _facts(attempt, placed[attempt.pk], patterns, **shared)
        except DatabaseError:
            raise
        except Exception as error:
            failed[attempt.pk] = error
    return facts, failed


def _newest() -> QuerySet[TaskAttempt, Any]:
    """The newest run of each task of these attempts, by an index: a retried task may have run thousands of times
    before."""
    runs = TaskAttempt.objects.filter(job_attempt=OuterRef("pk"), task=OuterRef("job__tasks")).order_by("-number")
    known = JobAttempt.objects.filter(Among("id", "attempts")).order_by()
    rows = TaskAttempt.objects.filter(pk__in=known.values(run=Subquery(runs.values("pk")[:1]))).order_by()
    columns = ("job_attempt", "task__role__name", "task__index", "node__address", "ports", "left")
    return rows.annotate(left=_LEFT).values_list(*columns)


_LEFT = Case(When(LIVE, phase__in=NEEDS_SPEC, then=False), default=True)
_STORAGES = Prepared(Storage.objects.all)
_NEWEST = Prepared(_newest)


class _Placed(NamedTuple):
    """A task attempt as its siblings see it."""

    role: str
    number: int
    address: str
    ports: dict[str, list[int]]
    left: bool  # it has ended, or was told to


def _facts(attempt: JobAttempt, placed: Iterable[_Placed], patterns: ImagePatterns, **shared: Any) -> AttemptFacts:
    job = attempt.job
    spec = JobSpec.from_json(job.spec)
    may = patterns.of_root(job.vc_id)
    as_user = frozenset(uri for uri in {role.image.uri for role in spec.roles} if not image_as_root(uri, may))
    peers = _peers(placed, spec)
    return AttemptFacts(
        job=job, attempt=attempt, spec=spec, secrets=unseal(job.secrets_sealed), peers=peers,
        as_user=as_user, shared=shared_variables(peers), **shared,
    )  # fmt: skip


def _peers(placed: Iterable[_Placed], spec: JobSpec) -> tuple[Peer, ...]:
    """All tasks, but only those extra ones that are there now."""
    newest = {(row.role, row.number): row for row in placed}
    peers, rank = [], 0
    for role in spec.roles:
        for index in range(role.instances):
            row = newest.get((role.name, index))
            if index < role.least or (row and not row.left):
                peers.append(
                    Peer(
                        role=role.name,
                        index=index,
                        rank=rank,
                        address=row.address if row else "",
                        ports={label: tuple(ports) for label, ports in row.ports.items()} if row else {},
                        gpus=role.resources.gpu,
                    )
                )
            rank += 1
    return tuple(peers)


class HeldGpu(NamedTuple):
    """A GPU of a task attempt."""

    number: int
    uuid: str


class Run(NamedTuple):
    """Columns of a task attempt for its spec."""

    id: UUID
    job_attempt: int
    node: int
    role: str
    number: int
    pinned_digest: str
    ports: dict[str, list[int]]
    waits_for: str


RUN_COLUMNS = ("pk", "job_attempt", "node", "task__role__name", "task__index", *Run._fields[5:])


def container_spec(facts: AttemptFacts, run: Run, node: Node, gpus: Sequence[HeldGpu]) -> ContainerSpec:
    """The spec of one task attempt on its node; ``gpus`` are in index order."""
    role = facts.spec.role(run.role)
    job, user = facts.job, facts.job.user
    profile = _profile(facts, role)
    # Also under the root profile: folders on storages belong to the user, whoever runs in the container.
    uid, gid = user.uid or NOBODY, user.gid or NOBODY
    job_dir, job_mounts, berth_folder = _job_folder(facts)
    mounts = (*job_mounts, *_storage_mounts(facts, profile))
    me = next(peer for peer in facts.peers if (peer.role, peer.index) == (role.name, run.number))
    grace = grace_seconds(facts.spec.berth.grace_period_s)
    env = environment(
        Facts(
            spec=facts.spec, user=user.username, run=job.run, attempt=facts.attempt.number, me=me, peers=facts.peers,
            interface=node.interface, gpu_indices=[gpu.number for gpu in gpus], job_dir=job_dir,
            workdir=WORKDIR, grace_s=grace,
        ),
        facts.shared,
    )  # fmt: skip
    task = f"{run.role}.{run.number}"
    if berth_folder:
        env["BERTH_STEPS"] = f"{job_dir}/{BERTH_FOLDER}/{STEPS}.{task}"
    env["BERTH_GIT_RETRY"] = str(settings.REGISTRY_RETRY_S)
    among, job_key_text = _job_ssh(facts, me)
    env |= {JOB_SSH_VARIABLE: "1"} if among else {}
    return ContainerSpec(
        attempt=str(run.id),
        job=job.label,
        role=role.name,
        index=run.number,
        image=role.image.uri,
        digest=run.pinned_digest or None,
        script=_script(among, render_script(role, facts.secrets)),
        env=env,
        gpus=tuple(gpu.uuid for gpu in gpus),
        limits=_limits(role),
        profile=profile,
        uid=uid,
        gid=gid,
        groups=tuple(user.extra_gids) if profile == "user" else (),
        user_name=user.username,
        workdir=WORKDIR,
        network="host" if facts.spec.task_count > 1 else "bridge",
        ports={label: tuple(ports) for label, ports in run.ports.items()},
        mounts=mounts,
        job_dir=job_dir,
        # One lease per task: if tasks are retried one by one, a retry must not wait for its running siblings.
        lease=f"{berth_folder}/lease.{task}" if berth_folder else None,
        lease_after=run.waits_for or None,
        checkpoint=_checkpoint(facts.spec.berth.checkpoint_file, mounts),
        steps=facts.spec.berth.steps or "",
        steps_file=f"{berth_folder}/{STEPS}.{task}" if berth_folder else None,
        grace_s=grace,
        auth=_auth(role, facts.secrets),
        code=_code(job),
        hidden=(*secret_texts(facts.secrets), *job_key_text),
    )


def _script(before: str, script: str) -> str:
    """Prepends what runs before the task's own commands."""
    return f"{before}{'' if OWN_COMMANDS in script else OWN_COMMANDS}{script}" if before else script


def _profile(facts: AttemptFacts, role: TaskRoleSpec) -> str:
    """The profile the job asks for, but never root unless its virtual cluster and an image pattern allow it: such a
    rule may be newer than the job."""
    asked = facts.spec.berth.profile != "user" and role.image.uri not in facts.as_user
    return "root" if asked and facts.job.vc.default_profile == "root" else "user"


def _job_ssh(facts: AttemptFacts, me: Peer) -> tuple[str, tuple[str, ...]]:
    """The script to run before the task's own commands, and its secret lines."""
    if facts.spec.job_ssh(me.role) is None:
        return "", ()
    key = job_key(facts.attempt.pk)
    private = private_text(key)
    script = job_ssh_script(facts.spec, key=key, private=private, me=me, peers=facts.peers)
    return script, tuple(private.splitlines()[1:-1])


def _code(job: Job) -> Code | None:
    code = job.code
    if code is None:
        return None
    return Code(sha256=code.sha256, size=code.size, unpacked=code.unpacked, entries=code.entries)


def _limits(role: TaskRoleSpec) -> Limits:
    need = role.resources
    return Limits(
        cpu_milli=need.cpu * 1000,
        memory_mb=need.memory_mb,
        shm_mb=need.shm_mb or need.memory_mb // 2,
        pids=PIDS_PER_GPU * max(need.gpu, 1),
        infiniband=need.infiniband,
    )


def _auth(role: TaskRoleSpec, secrets: Mapping[str, Any]) -> ImageAuth | None:
    auth = render_auth(role.image.auth, secrets) if role.image.auth else None
    return ImageAuth(registry=auth.registry_uri, username=auth.username, password=auth.password) if auth else None


def _job_folder(facts: AttemptFacts) -> tuple[str, tuple[Mount, ...], str | None]:
    """Job folder: path in the container, mounts, and the folder in it, on the node, for Berth's own files. Without a
    storage for job folders it is the container's own and a requeued job starts from nothing; a node that lacks that
    storage refuses the start."""
    storage = facts.job_storage
    if storage is None:
        return JOB_DIR, (), None
    source = job_folder_path(storage=storage, job=facts.job)
    mount = Mount(
        storage=storage.name,
        root=storage.root,
        source=source,
        target=JOB_DIR,
        create=True,
        must_be_mount=storage.is_mount,
    )
    return JOB_DIR, (mount,), f"{source}/{BERTH_FOLDER}"


def _checkpoint(wanted: str | None, mounts: tuple[Mount, ...]) -> str | None:
    """Path of the checkpoint file on the node; None if its folder is the container's own."""
    if wanted is None:
        return None
    path = PurePosixPath(JOB_DIR) / wanted
    holders = [mount for mount in mounts if PurePosixPath(mount.target) in path.parents]
    mount = max(holders, key=lambda one: len(one.target), default=None)
    return str(PurePosixPath(mount.source) / path.relative_to(mount.target)) if mount else None


def _storage_mounts(facts: AttemptFacts, profile: str) -> tuple[Mount, ...]:
    wanted = facts.spec.storages or ()
    if gone := [one.name for one in wanted if one.name not in facts.storages]:
        raise StorageGone(gone[0])
    return tuple(_mount(facts, facts.storages[one.name], one, profile) for one in wanted)


def _mount(facts: AttemptFacts, storage: Storage, wanted: StorageMount, profile: str) -> Mount:
    # Under the root profile a writable storage is only ever the user's own folder. So it is for user-profile jobs on
    # the same storage, which could otherwise replace that folder by a link.
    beside_root = storage.root in facts.own_folders and not storage.only_read
    own = storage.per_user or beside_root or (profile == "root" and not storage.read_only)
    root = PurePosixPath(storage.root)
    return Mount(
        storage=storage.name,
        root=storage.root,
        source=str(root / facts.job.user.username) if own else str(root),
        target=wanted.mount_path,
        read_only=storage.only_read,
        create=own,
        must_be_mount=storage.is_mount,
    )
