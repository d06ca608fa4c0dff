"""Where a job's folder is, which nodes can reach it, and how long it is kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from django.conf import settings
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Concat
from django.utils import formats, timezone
from django.utils.translation import gettext, ngettext

from nodes.protocol.messages import Mount
from portal.common.errors import Absent, Unavailable
from portal.files.models import KeptFolder
from portal.hardware.models import Node
from portal.hardware.states import NodeHealth
from portal.jobs.models import Job, TaskAttempt
from portal.jobs.states import JOB_LIVE
from portal.node_sessions.folders import JobFolder
from portal.storages.models import Storage
from portal.storages.selectors.storages import storage_offered
from portal.storages.ties import is_tied

JOB_DIR = "/berth/job"
"""The job folder's path inside containers."""
FAR = timedelta(days=2)
HELD = timedelta(days=7)
"""How long after its expiry an unknown container can hold a folder at most, whatever its node reports."""
FAILED_FOR_DAYS = 7
"""Number of failures in a row; they span more than two days (``folder_stays``)."""
NODE_COLUMNS = ("name", "public_key", "boot", "storages", "storage_faults", "accepted", "ties")


@dataclass(frozen=True, slots=True)
class FolderFate:
    """Retention of a job's folder. ``kept_until``: when it is deleted, None if never or not known yet; ``fault``: why
    it still exists after that."""

    kept_until: datetime | None = None
    deleted_at: datetime | None = None
    fault: str = ""


def folder_of(job: Job) -> KeptFolder | None:
    """The job's stored folder, if any; one query, unless the job was loaded with it."""
    return getattr(job, "kept_folder", None)


def job_folder_path(*, storage: Storage, job: Job) -> str:
    """The folder's path on every node that mounts the storage: the one that the job's tasks were first given."""
    kept = folder_of(job)
    if kept is not None and kept.storage_id == storage.pk:
        return kept.path
    return str(PurePosixPath(storage.root) / job.user.username / f"{job.name}-{job.run}")


def job_folder(*, job: Job) -> JobFolder:
    """The job's folder, with the nodes that can reach it. Raises Absent if jobs have no folders or this one was
    deleted, Unavailable if no node that can reach it is up."""
    kept = folder_of(job)
    if kept is not None and kept.deleted_at is not None:
        raise Absent(_deleted_words(job, kept.deleted_at))
    storage = kept.storage if kept else Storage.objects.filter(jobs=True).first()
    if storage is None:
        raise Absent(gettext("No storage of this cluster is for job folders, so jobs have none."))
    up = Node.objects.filter(health=NodeHealth.HEALTHY).only(*NODE_COLUMNS)
    (folder,) = _placed([(job.pk, storage, job_folder_path(storage=storage, job=job))], list(up))
    if not folder.nodes:
        raise Unavailable(nobody_up(folder))
    return folder


def nobody_up(folder: JobFolder) -> str:
    """The message that no node can reach it."""
    words = gettext("No node that has the storage %(storage)s, where job folders lie, is up now.")
    return words % {"storage": folder.mount.storage}


def _deleted_words(job: Job, at: datetime) -> str:
    days = (at - job.ended_at).days if job.ended_at else 0
    words = ngettext(
        "Its folder was deleted on %(date)s, %(days)s day after the job's end.",
        "Its folder was deleted on %(date)s, %(days)s days after the job's end.",
        days,
    )
    return words % {"date": formats.date_format(timezone.localtime(at), "Y-m-d"), "days": days}


def _placed(folders: Sequence[tuple[int, Storage, str]], up: Sequence[Node]) -> list[JobFolder]:
    """Folders by job, storage and path, each with those of the ``up`` nodes that can reach it. One query."""
    ran_on: dict[int, set[int]] = defaultdict(set)
    runs = TaskAttempt.objects.filter(task__job__in=[job for job, _, _ in folders]).order_by()
    for job, node in runs.values_list("task__job", "node").distinct():
        ran_on[job].add(node)
    return [JobFolder(_mount(storage, path), _nodes(up, storage, ran_on[job])) for job, storage, path in folders]


def _mount(storage: Storage, path: str) -> Mount:
    return Mount(
        storage=storage.name, root=storage.root, source=path, target=JOB_DIR, read_only=True,
        must_be_mount=storage.is_mount,
    )  # fmt: skip


def _nodes(up: Sequence[Node], storage: Storage, first: Collection[int]) -> list[Node]:
    """Nodes that offer the storage, and on which the job ran or which are tied to it; the former first."""
    nodes = [node for node in up if storage_offered(node=node, storage=storage)]
    nodes = [node for node in nodes if node.pk in first or is_tied(node, storage)]
    return sorted(nodes, key=lambda node: (node.pk not in first, node.name))


# ------------------------------------------------------------ retention


def folder_fate(*, job: Job, now: datetime) -> FolderFate:
    """What becomes of the job's folder, and when. At most five queries."""
    kept = folder_of(job)
    if kept is None or kept.deleted_at is not None:
        return FolderFate(deleted_at=kept.deleted_at if kept else None)
    if not settings.JOB_FOLDER_DAYS or job.ended_at is None:
        return FolderFate()
    until = job.ended_at + timedelta(days=settings.JOB_FOLDER_DAYS)
    if until > now:
        return FolderFate(until)
    if folders_free().filter(folders_held(now=now), job=job).exists():
        return FolderFate(until, fault=_held_words(until + HELD))
    if folders_free().filter(job=job).exists():
        return FolderFate(until, fault=kept.fault)
    return FolderFate(until, fault=gettext(
        "Berth leaves it alone: not every server that the job ran on has said that its containers are gone, or another "
        "job has the same folder, or its storage is not where it was."
    ))  # fmt: skip


def folders_due(*, now: datetime, limit: int) -> list[tuple[KeptFolder, JobFolder]]:
    """Expired folders, the oldest first, with the nodes that can delete them; none if deletion is off. Those that an
    unknown container may write in are held back for a while. At most five queries."""
    if not settings.JOB_FOLDER_DAYS:
        return []
    over = Q(job__ended_at__lt=now - timedelta(days=settings.JOB_FOLDER_DAYS))
    # A retry time further ahead than this was written by a wrong clock; treat it as due.
    asked_again = Q(next_at=None) | Q(next_at__lte=now) | Q(next_at__gt=now + FAR)
    free = folders_free().exclude(folders_held(now=now))
    rows = free.filter(over, asked_again).select_related("storage").order_by("job__ended_at", "job")
    due = [(row, row.storage) for row in rows[:limit] if row.storage is not None]
    if not due:
        return []
    up = Node.objects.filter(health=NodeHealth.HEALTHY).only(*NODE_COLUMNS)
    placed = _placed([(row.pk, storage, row.path) for row, storage in due], list(up))
    return [(row, folder) for (row, _), folder in zip(due, placed, strict=True)]


def folders_free() -> QuerySet[KeptFolder]:
    """Folders that are there and may be deleted once their time is over.

    1. The job is over.
    2. Of each of its containers the server has said that it is gone. Of a server that was taken out of the cluster
       the portal takes that for granted; here it does not: such a server may still write.
    3. No other job was given the same folder.
    4. Its storage is there, where it was when the folder was made.
    """
    runs = TaskAttempt.objects.filter(task__job=OuterRef("job"))
    unheard = runs.filter(Q(removed_at=None) | Q(removed_at__gte=F("node__removed_at")))
    others = KeptFolder.objects.filter(path=OuterRef("path")).exclude(job=OuterRef("job"))
    there = KeptFolder.objects.filter(deleted_at=None, path__startswith=Concat("storage__root", Value("/")))
    over = there.filter(job__ended_at__isnull=False).exclude(job__state__in=sorted(JOB_LIVE))
    return over.filter(~Exists(unheard), ~Exists(others))


def folders_held(*, now: datetime, node: Node | None = None) -> Q:
    """Folders that an unknown container may write in: in a storage that its node offers, of a job that ran there, and
    for ``HELD`` after their expiry. ``node``: by that one's containers alone. At most two queries."""
    nodes = [node] if node else list(Node.objects.exclude(strangers={}).only("name", "storages", "storage_faults"))
    storages = list(Storage.objects.all()) if nodes else []
    of_storages: dict[frozenset[int], list[int]] = defaultdict(list)
    for one in nodes:
        there = frozenset(storage.pk for storage in storages if storage_offered(node=one, storage=storage))
        of_storages[there].append(one.pk)
    held = Q(pk__in=())
    for there, ran_on in of_storages.items():
        runs = TaskAttempt.objects.filter(task__job=OuterRef("job"), node__in=ran_on)
        held |= Q(Exists(runs), storage__in=there)
    return held & Q(job__ended_at__gte=now - timedelta(days=settings.JOB_FOLDER_DAYS) - HELD)


def _held_words(until: datetime) -> str:
    words = gettext(
        "A server that the job ran on has a container that this portal does not know and that may write there: it "
        "stays until that is gone, until %(date)s at the latest."
    )
    return words % {"date": formats.date_format(timezone.localtime(until), "Y-m-d")}
