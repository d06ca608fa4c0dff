"""A real image registry (Debian's `docker-registry`) on a loopback port, which Docker takes without TLS."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

import docker
import httpx
import yaml

from tests.support.run.waiting import wait_until
from tests.support.services.guard import Guard
from tests.support.services.processes import Process, free_port

USER, PASSWORD = "alice", "correct horse"
_LOCKED = f"{USER}:$2b$04$KPWLKhHDwG6mij1ASnqAxedusHWofTr5ZSn0x2BVsQlLhJ/uI8SMO\n"
"""The password as bcrypt has it."""


class Registry:
    """``locked``: only ``USER`` may read and write. ``upstream``: it is a mirror that fetches from there. ``asked``
    tells what it was asked for."""

    def __init__(self, folder: Path, guard: Guard, *, locked: bool = False, upstream: str = "") -> None:
        self.port, self._folder, self._locked, self._upstream = free_port(), folder, locked, upstream
        self.host = f"127.0.0.1:{self.port}"
        folder.mkdir(parents=True)
        config = folder / "config.yml"
        config.write_text(yaml.safe_dump(self._config()))
        self._log = folder / "registry.log"
        command = ["docker-registry", "serve", str(config)]
        self._process = Process("registry", command, guard=guard, log=self._log)

    def start(self) -> None:
        self._process.start()
        wait_until(self._answers, f"the registry at {self.host}")

    def stop(self) -> None:
        self._process.kill()

    def asked(self, text: str) -> int:
        """How many of its requests name ``text``."""
        return sum("http.request.uri" in line and text in line for line in self._log.read_text().splitlines())

    def _answers(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"http://{self.host}/v2/", trust_env=False).status_code in {200, 401}
        return False

    def _config(self) -> dict[str, object]:
        config: dict[str, object] = {
            "version": 0.1,
            "log": {"level": "info", "accesslog": {"disabled": False}},
            "storage": {"filesystem": {"rootdirectory": str(self._folder / "data")}, "delete": {"enabled": True}},
            "http": {"addr": self.host},
        }
        if self._locked:
            (self._folder / "htpasswd").write_text(_LOCKED)
            config["auth"] = {"htpasswd": {"realm": "test", "path": str(self._folder / "htpasswd")}}
        if self._upstream:
            config["proxy"] = {"remoteurl": f"http://{self._upstream}"}
        return config


def image_pushed(
    client: docker.DockerClient, name: str, *, megabytes: int = 1, auth: dict[str, str] | None = None
) -> str:
    """An image with a shell and so much that cannot be packed, made here and pushed as ``name``; gives its digest."""
    image_made(client, name, megabytes=megabytes)
    for event in client.api.push(name, stream=True, decode=True, auth_config=auth or {}):
        assert "error" not in event, event
    return str(client.images.get(name).attrs["RepoDigests"][0].partition("@")[2])


def image_made(client: docker.DockerClient, name: str, *, megabytes: int = 1, volume: str = "") -> str:
    """The same, of no registry; gives its id. ``volume``: a folder that it declares as one."""
    busybox, applets = Path("/bin/busybox").read_bytes(), ("sh", "sleep", "dd", "cat", "echo", "touch", "mkdir")
    files = {"bin/busybox": busybox, "filler": os.urandom(megabytes << 20)}
    return image_of(client, name, files, links={f"bin/{one}": "busybox" for one in applets}, volume=volume)


def image_of(
    client: docker.DockerClient, name: str, files: Mapping[str, bytes], *, links: Mapping[str, str] | None = None,
    volume: str = "", entrypoint: str = "",
) -> str:  # fmt: skip
    """An image of these programs and links, of no registry; gives its id."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for path, data in files.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(data), 0o755
            archive.addfile(member, io.BytesIO(data))
        for path, target in (links or {}).items():
            link = tarfile.TarInfo(path)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
    repository, _, tag = name.rpartition(":")
    changes = ["ENV PATH=/bin", *([f"VOLUME {volume}"] if volume else [])]
    changes += [f"ENTRYPOINT {entrypoint}"] if entrypoint else []
    client.api.import_image_from_data(out.getvalue(), repository=repository, tag=tag, changes=changes)
    return str(client.images.get(name).id)
