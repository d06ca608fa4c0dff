"""Writes storages: folders that nodes mount and jobs may use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F
from django.db.models.fields.json import KeyTransform
from django.utils.translation import gettext

from portal.accounts.audit import audit_write, changes_of
from portal.accounts.models import Audited
from portal.common.errors import Conflict, Fault, Invalid
from portal.common.sentences import some_of
from portal.common.versions import version_check
from portal.storages.models import COLUMNS, Storage
from portal.storages.services.ties import server_faults, storage_proofs_forget, storage_tie_new
from portal.teams.models import VirtualCluster
from portal.teams.selectors.visible import vcs_named

PLACE = ("jobs", "kind", "root", "export")
"""Columns that locate a storage: not changed while jobs use it, whose next attempt would find other files. Of several
that changed the first is reported."""
NESTING = frozenset({"root", "jobs", "read_only", "per_user"})
"""Columns that decide whether jobs could write where another storage's folder is."""
SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/proc", "/root", "/run", "/sbin", "/sys", "/usr", "/var/run")
_OPTIONS = re.compile(r"([a-z_]+(=[A-Za-z0-9._:-]+)?(,[a-z_]+(=[A-Za-z0-9._:-]+)?)*)?")
_EXPORT = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Za-z:.%]+\]):/[^\x00-\x1f]*")


def storage_told(storage: Storage) -> dict[str, Any]:
    """The storage's state for the audit log and its version."""
    columns = {name: getattr(storage, name) for name in COLUMNS}
    return {**columns, "virtual_clusters": sorted(vc.name for vc in storage.vcs.all())}


def storage_faults(
    *, name: str, virtual_clusters: Iterable[str], servers: Sequence[str] = (), **about: Any
) -> list[Fault]:
    """Every reason why such a storage cannot be created, for these virtual clusters, tied to these servers; ``about``:
    some of ``COLUMNS``."""
    storage = Storage(name=name, **about)
    faults = [*_faults(storage), *_nesting_faults(storage), *_vc_faults(virtual_clusters), *server_faults(servers)]
    if Storage.objects.filter(name=name).exists():
        faults.append(Fault("name", _taken(name), "taken"))
    return [*faults, *_conflict("jobs", partial(_check_jobs_once, storage))]


def storage_change_faults(
    *, storage: Storage, changes: Mapping[str, Any], virtual_clusters: Iterable[str] = ()
) -> list[Fault]:
    """Every reason why the storage cannot be changed so, each at its field: also what conflicts with other storages, or
    with jobs that use it."""
    row = Storage.objects.get(pk=storage.pk)
    moved = _put(row, changes)
    nesting = _nesting_faults(row) if NESTING & changes.keys() else ()
    faults = [
        *_faults(row),
        *nesting,
        *_vc_faults(virtual_clusters),
        *_conflict("jobs", partial(_check_jobs_once, row)),
    ]
    return [*faults, *(_conflict(moved[0], partial(_check_unmoved, storage)) if moved else ())]


def _conflict(path: str, check: Callable[[], None]) -> list[Fault]:
    try:
        check()
    except Conflict as refusal:
        return [Fault(path, refusal.detail, "taken")]
    return []


def _vc_faults(names: Iterable[str]) -> Sequence[Fault]:
    try:
        vcs_named(names)
    except Invalid as refusal:
        return refusal.faults
    return ()


def _put(row: Storage, changes: Mapping[str, Any]) -> list[str]:
    """Changes the row; returns which ``PLACE`` columns changed."""
    moved = [name for name in PLACE if name in changes and changes[name] != getattr(row, name)]
    for name, value in changes.items():
        setattr(row, name, value)
    return moved


def storage_create(
    *, name: str, vcs: Iterable[VirtualCluster], now: datetime, actor: str, servers: Sequence[str] | None = None,
    **about: Any,
) -> Storage:  # fmt: skip
    """Creates a storage that jobs of these virtual clusters may use; ``about``: some of ``COLUMNS``; ``servers``: names
    of those to tie (``storage_tie_new``). Raises Invalid with every fault, Conflict if the name is taken or another
    storage holds the job folders."""
    storage = Storage(name=name, **about)
    if faults := list(_faults(storage)):
        raise Invalid(faults)
    if Storage.objects.filter(name=name).exists():
        raise Conflict(_taken(name))
    _check_jobs_once(storage)
    if faults := list(_nesting_faults(storage)):
        raise Invalid(faults)
    with _at_one_moment(), transaction.atomic():
        storage.save(force_insert=True)
        storage.vcs.set(vcs)
        after = {**storage_told(storage), "servers": storage_tie_new(storage, servers)}
        audit_write(Audited.STORAGE, actor=actor, target=name, now=now, after=after)
    return storage


def storage_change(
    *,
    storage: Storage,
    changes: Mapping[str, Any],
    virtual_clusters: Iterable[str] | None = None,
    seen: str | None = None,
    now: datetime,
    actor: str,
) -> Storage:
    """Changes some of ``COLUMNS``, and with ``virtual_clusters`` whose jobs may use it. Waiting jobs are checked again
    when they are about to start, started ones keep what they have. Raises Invalid with every fault, and Conflict if
    ``seen``, the version that the change is based on, is outdated, or if unfinished jobs use a location that would
    change."""
    with _at_one_moment(), transaction.atomic():
        row = Storage.objects.select_for_update().get(pk=storage.pk)
        before = storage_told(row)
        version_check(before, seen)
        moved = _put(row, changes)
        nesting = _nesting_faults(row) if NESTING & changes.keys() else ()
        if faults := [*_faults(row), *nesting, *_vc_faults(virtual_clusters or ())]:
            raise Invalid(faults)
        _check_jobs_once(row)
        if moved:
            _check_unmoved(storage)
            storage_proofs_forget(row)
        row.save()
        if virtual_clusters is not None:
            row.vcs.set(vcs_named(virtual_clusters))
        was, became = changes_of(before, storage_told(row))
        if {"root", "export"} & became.keys():
            became["servers"] = storage_tie_new(row, None)
        if became:
            audit_write(Audited.STORAGE, actor=actor, target=row.name, now=now, before=was, after=became)
    return row


def storage_remove(*, storage: Storage, now: datetime, actor: str) -> None:
    """Deletes a storage; its files stay. Raises Conflict while unfinished jobs use it."""
    with transaction.atomic():
        row = Storage.objects.select_for_update().get(pk=storage.pk)
        _check_unused(row, gettext("it cannot be removed"))
        before = storage_told(row)
        row.delete()
        audit_write(Audited.STORAGE, actor=actor, target=row.name, now=now, before=before)


@contextmanager
def _at_one_moment() -> Iterator[None]:
    """Turns an IntegrityError, of two at once, into Conflict."""
    try:
        yield
    except IntegrityError as error:
        raise Conflict(
            gettext("A storage of this name, or one for job folders, was made at the same moment.")
        ) from error


def _taken(name: str) -> str:
    return gettext("There is a storage named %(name)s already.") % {"name": name}


def _check_jobs_once(storage: Storage) -> None:
    other = Storage.objects.filter(jobs=True).exclude(pk=storage.pk).first() if storage.jobs else None
    if other is not None:
        raise Conflict(gettext("Job folders lie in %(other)s; take that from it first.") % {"other": other.name})


def _check_unmoved(storage: Storage) -> None:
    _check_unused(storage, gettext("its place cannot change; make another storage"))


def _check_unused(storage: Storage, what: str) -> None:
    """Raises Conflict if unfinished jobs use it: those that name it in their files, and all jobs if it holds job
    folders."""
    live = VirtualCluster.objects.filter(jobs__ended_at__isnull=True, jobs__isnull=False).order_by()
    wanted = live.values_list(
        "jobs__user__username", "jobs__name", "jobs__run", KeyTransform("storages", F("jobs__spec"))
    )
    users = [
        f"{user}/{name}#{run}"
        for user, name, run, mounts in wanted
        if storage.jobs or any(mount["name"] == storage.name for mount in mounts or ())
    ]
    if users:
        jobs = some_of(users, 5)
        raise Conflict(
            gettext("Jobs use %(storage)s (%(jobs)s): %(what)s.")
            % {"storage": storage.name, "jobs": jobs, "what": what}
        )


def _faults(storage: Storage) -> Iterator[Fault]:
    yield from _root_faults(storage.root)
    if storage.kind == "nfs" and not _EXPORT.fullmatch(storage.export):
        yield Fault("export", gettext("an NFS storage needs server:/export, such as filer:/data"), "invalid")
    if storage.kind != "nfs" and storage.options:
        yield Fault("options", gettext("only an NFS storage has some"), "invalid")
    if not _OPTIONS.fullmatch(storage.options):
        message = gettext("options such as vers=4.2,nconnect=4, separated by commas and without spaces")
        yield Fault("options", message, "invalid")
    if storage.kind != "nfs" and storage.export:
        yield Fault("export", gettext("only an NFS storage has one"), "invalid")
    if storage.jobs and storage.read_only:
        yield Fault("read_only", gettext("job folders are written to"), "invalid")


def _nesting_faults(storage: Storage) -> Iterator[Fault]:
    """Faults if jobs could write where another storage's folder is looked up by name: they could replace it by a link
    just as it is mounted, which then leads anywhere on the server."""
    root = PurePosixPath(storage.root)
    for other in Storage.objects.exclude(pk=storage.pk).order_by("name"):
        place = PurePosixPath(other.root)
        told = {"other": other.name, "root": other.root}
        if root == place and (storage.jobs or other.jobs) and not (storage.read_only or other.read_only):
            yield Fault("root", gettext("the folder of %(other)s; job folders need one of their own") % told, "nested")
        elif root == place and (_meet(storage, other) or _meet(other, storage)):
            words = gettext("the folder of %(other)s, where jobs could put a link in place of a user's folder")
            yield Fault("root", words % told, "nested")
        elif root != place and root.is_relative_to(place) and not other.read_only:
            words = gettext("inside %(root)s, the folder of %(other)s, where jobs could put a link in its place")
            yield Fault("root", words % told, "nested")
        elif root != place and place.is_relative_to(root) and not storage.read_only:
            words = gettext("around %(root)s, the folder of %(other)s, in whose place jobs could put a link")
            yield Fault("root", words % told, "nested")


def _meet(whole: Storage, named: Storage) -> bool:
    """Whether jobs may write beside each user's folder in ``whole``, and get that folder by name in ``named``: always,
    or where a virtual cluster allows root."""
    return not (whole.per_user or whole.only_read) and (named.per_user or not named.only_read)


def _root_faults(root: str) -> Iterator[Fault]:
    path = PurePosixPath(root)
    if not path.is_absolute() or ".." in path.parts or str(path) != root or root.startswith("//"):
        yield Fault("root", gettext("an absolute path without .., // or a slash at its end"), "invalid")
    elif root == "/" or any(path.is_relative_to(folder) for folder in SYSTEM):
        message = gettext("%(root)s belongs to the system; give a folder of its own, such as /mnt/data")
        yield Fault("root", message % {"root": root}, "system")
    elif any(ord(character) < 32 for character in root):
        yield Fault("root", gettext("a path without control characters"), "invalid")
