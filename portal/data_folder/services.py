"""Whether this process has the data folder that belongs to the database, as all of the portal's must: logs, code and
curves are written by one and read by another. The file ``folder.id`` in it is compared with what the database holds,
and each process of the portal holds it as long as it lives, so that nothing is put in its place meanwhile."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from portal.data_folder.models import DataFolder
from portal.env.keys import key_file

NAME = "folder.id"


class FolderApart(Exception):
    """This process has another data folder than the database's, or a restore is at work in it; one sentence and its
    cure."""


class FolderInUse(Exception):
    """Processes of the portal hold the data folder."""


def data_folder_settle() -> None:
    """Compares them. The first process of a new database makes its folder the database's; of two that begin at once
    with folders of their own, one is refused. Raises FolderApart, django's DatabaseError, OSError."""
    if not DataFolder.objects.exists():
        # The file first: a process that is killed between the two leaves a folder that the next one takes.
        DataFolder.objects.get_or_create(pk=1, defaults={"mark": _mark_make()})
    if fault := data_folder_fault():
        raise FolderApart(fault)


def data_folder_hold() -> None:
    """Holds this process's data folder until its end, however it ends: the kernel lets go. Raises FolderApart while a
    restore has it for itself."""
    try:
        _locked(os.O_RDONLY, fcntl.LOCK_SH)  # never closed
    except BlockingIOError:
        raise FolderApart(
            f"A restore is at work in BERTH_DATA_DIR={str(settings.DATA_DIR)!r}: start when it has ended."
        ) from None


@contextmanager
def data_folder_alone() -> Iterator[None]:
    """Nobody else holds the data folder, or begins to, in the block. Raises FolderInUse."""
    try:
        descriptor = _locked(os.O_RDWR, fcntl.LOCK_EX)
    except BlockingIOError:
        raise FolderInUse from None
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _locked(flags: int, kind: int) -> int | None:
    """A descriptor of the file, locked, that no child inherits; None where there is none yet, or where its file system
    knows no locks: who cannot tell refuses nobody. Raises BlockingIOError where others have it."""
    try:
        descriptor = os.open(_path(), flags)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise
        return None
    return descriptor


def data_folder_fault() -> str:
    """Why this folder is not the database's; empty where it is, or where the database knows none yet. Changes nothing.
    Raises django's DatabaseError, OSError."""
    row = DataFolder.objects.first()
    path = _path()
    found = path.read_text(encoding="utf-8", errors="replace").strip() if path.exists() else ""
    if row is None or found == row.mark:
        return ""
    why = f"its {NAME} is another's" if found else f"it has no {NAME}"
    return (
        f"BERTH_DATA_DIR={str(settings.DATA_DIR)!r} is not the data folder of this database: {why}. All processes of "
        "the portal share one: mount it here. Where this folder shall be the one, such as after a move, run manage.py "
        "data_folder --take, and start all of them again."
    )


def data_folder_take() -> None:
    """Makes the folder of this process the database's, such as after a restore. Raises DatabaseError, OSError."""
    DataFolder.objects.update_or_create(pk=1, defaults={"mark": _mark_make()})


def _path() -> Path:
    return Path(settings.DATA_DIR) / NAME


def _mark_make() -> str:
    """What the file holds, which is made once."""
    return key_file(_path(), lambda: secrets.token_hex(16))
