"""The user inside a container of profile ``user``: an entry in passwd and group, a writable home and workdir; and a
folder for the job where no storage has one.

They go into the container's own layer before it starts, merged with what the image has; nothing of it lies on the
node, and an image without these files gets them.
"""

from __future__ import annotations

import io
import tarfile
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

import docker
from docker.errors import NotFound

from nodes.container import home_of, user_name
from nodes.protocol import ContainerSpec
from nodes.storages import own_job_folder

_LARGEST = 1 << 20
_CACHED = 64


@dataclass(frozen=True, slots=True)
class ImageAccounts:
    """What a fresh container has: its two files, and whether the workdir is an empty folder of the image's."""

    passwd: str
    group: str
    workdir_is_empty: bool


class AccountFiles:
    """Puts the files into fresh containers. What an image has is read once per image."""

    def __init__(self, client: docker.APIClient) -> None:
        self._client = client
        self._have: OrderedDict[tuple[str, str, bool], ImageAccounts] = OrderedDict()

    def put(self, spec: ContainerSpec, container: str, image: str) -> None:
        """Writes the entries into a created container; ``image`` is the image's id. Root has them already, and gets the
        job's folder alone. Raises APIError."""
        if spec.profile != "user":
            if (folder := own_job_folder(spec)) is not None:
                self._client.put_archive(container, "/", _archive({}, [folder], 0, 0))
            return
        key = (image, spec.workdir, spec.code is not None)
        if key not in self._have:
            self._have[key] = self._read(container, spec)
            if len(self._have) > _CACHED:
                self._have.popitem(last=False)
        self._client.put_archive(container, "/", account_archive(spec, self._have[key]))

    def _read(self, container: str, spec: ContainerSpec) -> ImageAccounts:
        return ImageAccounts(
            passwd=self._file(container, "/etc/passwd"),
            group=self._file(container, "/etc/group"),
            workdir_is_empty=spec.code is None and len(self._members(container, spec.workdir, 2)) == 1,
        )

    def _file(self, container: str, path: str) -> str:
        members = self._members(container, path, 1)
        return members[0].decode(errors="replace") if members else ""

    def _members(self, container: str, path: str, most: int) -> list[bytes]:
        """The first members' contents of a path in the container; none when it is not there."""
        try:
            chunks, _ = self._client.get_archive(container, path)
        except NotFound:
            return []
        stream = _Stream(chunks)
        found: list[bytes] = []
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isreg() else None
                found.append(file.read(_LARGEST) if file else b"")
                if len(found) == most:
                    break
        stream.close_source()
        return found


class _Stream(io.RawIOBase):
    """An iterator of byte chunks as a file, as ``tarfile`` reads it."""

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
        """Lets the connection go without reading a large folder to its end."""
        close = getattr(self._chunks, "close", None)
        if close is not None:
            close()


def account_archive(spec: ContainerSpec, have: ImageAccounts) -> bytes:
    """A tar archive of what the user needs, to be unpacked at ``/``."""
    name = user_name(spec)
    files = {
        "etc/passwd": f"{name}:x:{spec.uid}:{spec.gid}::{home_of(spec)}:/bin/sh\n{have.passwd}",
        "etc/group": f"{name}:x:{spec.gid}:\n{have.group}",
    }
    return _archive(files, _own_folders(spec, have), spec.uid, spec.gid)


def _archive(files: Mapping[str, str], folders: Iterable[str], uid: int, gid: int) -> bytes:
    """Files of /etc, and folders of their own for this user."""
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
    """Home, workdir and the job's folder, unless a storage or the job's code lies there or the image filled the
    workdir."""
    wanted = [home_of(spec), *filter(None, [own_job_folder(spec)])]
    if have.workdir_is_empty and PurePosixPath(spec.workdir) != PurePosixPath("/"):
        wanted.append(spec.workdir)
    targets = [PurePosixPath(mount.target) for mount in spec.mounts]
    return [path for path in wanted if not any(PurePosixPath(path).is_relative_to(target) for target in targets)]


def _folder(archive: tarfile.TarFile, name: str, uid: int, gid: int, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.uid, member.gid, member.mode = tarfile.DIRTYPE, uid, gid, mode
    archive.addfile(member)


def _file(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode()
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o644
    archive.addfile(member, io.BytesIO(data))
