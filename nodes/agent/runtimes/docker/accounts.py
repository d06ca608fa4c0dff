"""User accounts inside a container of profile ``user``: entries in passwd and group, a writable home and workdir; and a
job folder where no storage has one.

They go into the container's own layer before it starts, merged with what the image has. Nothing of it lies on the node,
and images without these files get them.
"""

from __future__ import annotations

import io
import posixpath
import tarfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import NotFound

from nodes.agent.runtimes.docker.container_config import home_of, user_name
from nodes.agent.runtimes.docker.mount_targets import is_within, mount_targets, mounts_stay, path_plain
from nodes.agent.runtimes.docker.paths import bare_container, path_resolved
from nodes.agent.storage.folders import own_job_folder
from nodes.protocol.messages import ContainerSpec

_LARGEST = 1 << 20
_CACHED = 256


@dataclass(frozen=True, slots=True)
class ImageAccounts:
    """Account files of an image, and where its links lead each path that was asked for."""

    passwd: str
    group: str
    leads: Mapping[str, str]


class AccountFiles:
    """Writes account files into fresh containers. An image's own files are read once per image and paths, in a
    container called ``name`` without mounts: so no job decides what another job's container gets. ``workspaces``: where
    the code of attempts lies on the node."""

    def __init__(self, client: Callable[[], docker.APIClient], name: str, workspaces: Path) -> None:
        self._client, self._name, self._workspaces = client, name, workspaces
        self._have: OrderedDict[tuple[str, str, tuple[str, ...]], ImageAccounts] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, spec: ContainerSpec, container: str, image: str) -> None:
        """Writes the entries into a created container; ``image`` is the image's id. Root has them already, and gets
        only the job folder. Raises APIError, and ``AttemptFailed`` where a link would move a mount: the Engine writes
        as root, into whatever lies there."""
        if spec.profile != "user":
            if (folder := own_job_folder(spec)) is not None:
                self._client().put_archive(container, "/", _archive({}, [folder], 0, 0))
            return
        have = self._image(spec, image)
        mounts_stay(spec, have.leads, self._workspaces / spec.attempt)
        self._client().put_archive(container, "/", account_archive(spec, have))

    def _image(self, spec: ContainerSpec, image: str) -> ImageAccounts:
        asked = tuple(sorted({*mount_targets(spec), *map(posixpath.dirname, _folders_wanted(spec))}))
        key = (image, spec.workdir, asked)
        with self._lock:
            if key not in self._have:
                with bare_container(self._client(), image, self._name, spec.workdir) as bare:
                    self._have[key] = self._read(bare, spec, asked)
                if len(self._have) > _CACHED:
                    self._have.popitem(last=False)
            return self._have[key]

    def _read(self, container: str, spec: ContainerSpec, asked: Iterable[str]) -> ImageAccounts:
        return ImageAccounts(
            passwd=self._file(container, "/etc/passwd"),
            group=self._file(container, "/etc/group"),
            leads={path: path_resolved(self._client(), container, path) for path in asked},
        )

    def _file(self, container: str, path: str) -> str:
        """Content of a file in the container; empty where there is none."""
        try:
            chunks, _ = self._client().get_archive(container, path)
        except NotFound:
            return ""
        stream = _Stream(chunks)
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            member = archive.next()
            file = archive.extractfile(member) if member is not None and member.isreg() else None
            text = file.read(_LARGEST).decode(errors="replace") if file else ""
        stream.close_source()
        return text


class _Stream(io.RawIOBase):
    """A file over an iterator of byte chunks, for ``tarfile``."""

    def __init__(self, chunks: object) -> None:
        self._chunks, self._rest = iter(chunks), b""  # type: ignore[call-overload]

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._rest) < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            self._rest += chunk
        taken, self._rest = (self._rest, b"") if size < 0 else (self._rest[:size], self._rest[size:])
        return taken

    def close_source(self) -> None:
        """Closes the connection without reading a large folder to its end."""
        close = getattr(self._chunks, "close", None)
        if close is not None:
            close()


def account_archive(spec: ContainerSpec, have: ImageAccounts) -> bytes:
    """The tar archive with the user's files and folders, to be unpacked at ``/``."""
    name = user_name(spec)
    files = {
        "etc/passwd": f"{name}:x:{spec.uid}:{spec.gid}::{home_of(spec)}:/bin/sh\n{have.passwd}",
        "etc/group": f"{name}:x:{spec.gid}:\n{have.group}",
    }
    return _archive(files, _own_folders(spec, have), spec.uid, spec.gid)


def _archive(files: Mapping[str, str], folders: Iterable[str], uid: int, gid: int) -> bytes:
    """A tar archive of files in /etc, and of folders owned by this user."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        if files:
            _folder(archive, "etc", 0, 0, 0o755)
        for name, text in files.items():
            _file(archive, name, text)
        for folder in folders:
            _folder(archive, folder.lstrip("/"), uid, gid, 0o755)
    return out.getvalue()


def _own_folders(spec: ContainerSpec, have: ImageAccounts) -> list[str]:
    """Home, workdir and job folder, unless a storage or the job's code lies there; the image's links on the way
    followed. What the image has in them stays."""
    wanted = [path for path in _folders_wanted(spec) if spec.code is None or path != path_plain(spec.workdir)]
    places = [posixpath.join(have.leads[posixpath.dirname(path)], posixpath.basename(path)) for path in wanted]
    return [path for path in places if not any(is_within(path, target) for target in mount_targets(spec))]


def _folders_wanted(spec: ContainerSpec) -> list[str]:
    """Folders that should be the user's, except the root."""
    wanted = map(path_plain, filter(None, (home_of(spec), own_job_folder(spec), spec.workdir)))
    return [path for path in dict.fromkeys(wanted) if path != "/"]


def _folder(archive: tarfile.TarFile, name: str, uid: int, gid: int, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.uid, member.gid, member.mode = tarfile.DIRTYPE, uid, gid, mode
    archive.addfile(member)


def _file(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode()
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o644
    archive.addfile(member, io.BytesIO(data))
