"""What root writes into a fresh container on a real Engine stays out of its storages, whatever the image, the job's
variables and its code say."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from nodes.agent.runtimes.base import AttemptFailed, Image, RuntimeContainer
from nodes.agent.runtimes.docker.runtime import DockerRuntime
from nodes.protocol.messages import Code, Mount
from nodes.protocol.names import container_name
from nodes.protocol.states import Cause
from tests.support.cluster.portal_side import spec_of
from tests.support.services.docker_engine import DockerEngine

pytestmark = pytest.mark.docker
OWNER = 7000


@dataclass
class Node:
    """A runtime, and a storage that many write, with a file of theirs in it."""

    runtime: DockerRuntime
    client: docker.DockerClient
    workspaces: Path
    storage: Path

    def image(self, name: str, links: dict[str, str]) -> str:
        """An image of folders and links alone; gives its id."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            for path in ("mnt", "etc", "home"):
                if path not in links:
                    member = tarfile.TarInfo(path)
                    member.type, member.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(member)
            for path, target in links.items():
                member = tarfile.TarInfo(path)
                member.type, member.linkname = tarfile.SYMTYPE, target
                archive.addfile(member)
        self.client.api.import_image_from_data(out.getvalue(), repository=name, tag="1")
        return str(self.client.images.get(f"{name}:1").id)

    def create(self, image: str, *targets: str, **changes: Any) -> RuntimeContainer:
        mounts = tuple(
            Mount(storage="s", root=str(self.storage), source=str(self.storage / f"{number}"), target=target)
            for number, target in enumerate(targets)
        )
        for mount in mounts:
            Path(mount.source).mkdir(mode=0o1777, exist_ok=True)
            os.chown(mount.source, OWNER, OWNER)
        spec = spec_of("true", mounts=mounts, network="none", **changes)
        if spec.code is not None:
            (self.workspaces / spec.attempt).mkdir(parents=True)
            (self.workspaces / spec.attempt / "data").symlink_to("/home")
        return self.runtime.create(spec, "hash", Image(digest=image, reference=image))

    def untouched(self) -> bool:
        """Whether the storage's folders are their owner's still, with nothing new in them."""
        return all(
            (one.stat().st_uid, os.listdir(one)) == (OWNER, []) for one in self.storage.iterdir() if one.is_dir()
        )


@pytest.fixture
def node(docker_engine: DockerEngine, tmp_path: Path) -> Iterator[Node]:
    storage = tmp_path / "storage"
    storage.mkdir()
    runtime = DockerRuntime(
        cluster="berth", node="gpu01", url=docker_engine.url, gpus=tuple, simulated=True, raises_limits=False,
        notices=tmp_path / "notices", workspaces=tmp_path / "workspaces", images=tmp_path / "images.json",
    )  # fmt: skip
    with docker_engine.client() as client, closing(runtime):
        yield Node(runtime, client, tmp_path / "workspaces", storage)


CODE = Code(sha256="0" * 64, size=1, unpacked=1, entries=1)


@pytest.mark.parametrize(
    ("links", "targets", "changes"),
    [
        pytest.param({"y": "/etc"}, ["/y"], {}, id="a link moves a mount to the folder of users"),
        pytest.param({"y": "/home"}, ["/y/alice"], {}, id="a link moves a mount to the home"),
        pytest.param({"home/x": "/home"}, ["/home/x"], {}, id="a mount lies over the link that moves it"),
        pytest.param({"p": "/a", "a/b": "/home"}, ["/p", "/a/b"], {}, id="another mount lies over the link"),
        pytest.param({}, ["/etc/passwd"], {}, id="a mount in place of the file of users"),
        pytest.param({}, ["/workspace/data"], {"code": CODE}, id="a link in the code moves a mount"),
    ],
)
def test_a_mount_that_a_link_would_move_is_refused(
    node: Node, links: dict[str, str], targets: list[str], changes: dict[str, Any]
) -> None:
    image = node.image("linked", links)
    with pytest.raises(AttemptFailed) as failed:
        node.create(image, *targets, **changes)
    assert failed.value.cause is Cause.INVALID
    assert node.untouched()


@pytest.mark.parametrize(
    ("links", "target", "changes"),
    [
        pytest.param({"home": "/mnt"}, "/mnt/alice", {}, id="a link leads the home into a storage"),
        pytest.param({"x": "/mnt"}, "/mnt/alice", {"env": {"HOME": "/x/alice/sub"}}, id="below a storage"),
        pytest.param({}, "/mnt/alice", {"env": {"HOME": "/home/../mnt/alice"}}, id="a home with steps back"),
        pytest.param({}, "/mnt/alice", {"env": {"HOME": "//mnt//alice/."}}, id="a home with more slashes"),
        pytest.param({"job": "/mnt/alice"}, "/mnt/alice", {"job_dir": "/job/one"}, id="the job's folder"),
    ],
)
def test_a_home_that_leads_into_a_storage_is_left_as_it_is(
    node: Node, links: dict[str, str], target: str, changes: dict[str, Any]
) -> None:
    made = node.create(node.image("linked", links), target, **changes)
    assert node.untouched()
    passwd = tarred(node.client, made, "/etc/passwd")
    assert passwd.startswith(b"alice:x:5000:5000:")


def test_what_one_job_mounts_over_the_users_of_an_image_is_no_other_jobs(node: Node) -> None:
    image = node.image("plain", {})
    with pytest.raises(AttemptFailed):
        node.create(image, "/etc")
    made = node.create(image)
    assert tarred(node.client, made, "/etc/passwd").count(b"\n") == 1


def test_links_that_move_nothing_are_no_matter_and_no_container_is_left_behind(node: Node) -> None:
    image = node.image("linked", {"var/home": "/nowhere", "home": "/var/lib", "loop": "/loop"})
    made = node.create(image, "/data")
    assert node.untouched()
    assert {one.name for one in node.client.containers.list(all=True)} == {container_name(made.attempt)}
    assert folder_owner(node.client, made, "/home/alice") == 5000


def tarred(client: docker.DockerClient, made: RuntimeContainer, path: str) -> bytes:
    with member_of(client, made, path) as archive:
        file = archive.extractfile(archive.getmembers()[0])
        assert file is not None
        return file.read()


def folder_owner(client: docker.DockerClient, made: RuntimeContainer, path: str) -> int:
    with member_of(client, made, path) as archive:
        return archive.getmembers()[0].uid


def member_of(client: docker.DockerClient, made: RuntimeContainer, path: str) -> tarfile.TarFile:
    chunks, _ = client.api.get_archive(made.container, path)
    return tarfile.open(fileobj=io.BytesIO(b"".join(chunks)))
