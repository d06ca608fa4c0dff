"""Storages that the agent mounts. The kernel of a test machine has seldom NFS, and a test brings no file server of its
own; so what is mounted here is `bindfs`, a file system behind a process: frozen it hangs whoever looks, as a server
that is away does, and killed it goes stale. The commands, the looks and the unmounting are the agent's own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from nodes.agent.config.policy import Policy
from nodes.agent.runtimes.base import AttemptFailed
from nodes.agent.storage.background import BackgroundCall, BackgroundCalls
from nodes.agent.storage.folders import mount_open
from nodes.agent.storage.mounts import StorageManager, StorageState
from nodes.agent.storage.nosuid import MountGuard
from nodes.protocol.messages import ContainerSpec, Mount, Stop, StorageWish
from nodes.protocol.states import Cause, ContainerState, Phase, StopReason
from tests.support.cluster.memory_runtime import Backlog, MemoryRuntime
from tests.support.cluster.portal_side import spec_of
from tests.support.cluster.supervised_node import Node, desired, in_state, order, wait_for
from tests.support.run.waiting import wait_until

pytestmark = pytest.mark.docker
LACKING = "this server cannot mount NFS: install nfs-common, and a kernel with NFS ("


@dataclass
class Server:
    """Exports of a made-up file server, and what mounts them below ``own``."""

    folder: Path
    kept: list[StorageManager] = field(default_factory=list)

    @property
    def own(self) -> Path:
        return self.folder / "mnt"

    def export(self, name: str) -> Path:
        path = self.folder / "exports" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def wish(self, name: str = "data", **changes: Any) -> StorageWish:
        values = {"name": name, "root": str(self.own / name), "export": str(self.export(name)), **changes}
        return StorageWish(**values)

    def controller(self, **changes: Any) -> StorageManager:
        values: dict[str, Any] = {
            "allowed": (), "own": str(self.own), "servers": ("*",), "state": self.folder / "storages.json",
            "kind": "fuse.bindfs", "timeout_s": 1.0, "mount_s": 5.0,
            "guards": MountGuard((str(self.own),), binds=False),
            **changes,
        }  # fmt: skip
        return StorageManager(**values)

    def process(self, name: str = "data") -> psutil.Process:
        """Who serves a mounted one."""
        place = str(self.own / name)
        return next(one for one in psutil.process_iter(["cmdline"]) if place in (one.info["cmdline"] or ()))

    def mounts(self) -> list[str]:
        lines = Path("/proc/self/mounts").read_text().splitlines()
        return [line.split()[1].rpartition("/")[2] for line in lines if line.split()[1].startswith(str(self.own))]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    for name in made.mounts():
        for process in psutil.process_iter(["cmdline"]):
            if str(made.own / name) in (process.info["cmdline"] or ()):
                process.send_signal(signal.SIGCONT)
        subprocess.run(["umount", "--lazy", made.own / name], check=True)


def faults(state: StorageState) -> dict[str, str]:
    return {Path(root).name: fault for root, fault in state.faults.items()}


def test_an_export_is_mounted_offered_and_taken_off_again(server: Server) -> None:
    (server.export("data") / "hello").write_text("there")
    controller = server.controller()
    controller.want([server.wish()])
    assert controller.look() == StorageState((str(server.own / "data"),), {})
    assert (server.own / "data" / "hello").read_text() == "there"
    lines = Path("/proc/self/mounts").read_text().splitlines()
    options = next(line.split()[3] for line in lines if line.split()[1] == str(server.own / "data"))
    assert {"nosuid", "nodev"} <= set(options.split(","))
    assert controller.look().faults == {}
    assert server.mounts() == ["data"], "once"

    again = server.controller()  # an agent that was restarted offers the same before it hears of the portal
    assert again.look().roots == (str(server.own / "data"),)
    controller.want([server.wish("other", read_only=True)])
    assert controller.look() == StorageState((str(server.own / "other"),), {})
    assert server.mounts() == ["other"]
    assert not (server.own / "data").exists()
    with pytest.raises(OSError, match="Read-only"):
        (server.own / "other" / "x").touch()
    controller.want([])
    assert controller.look() == StorageState()
    assert server.mounts() == []


def test_a_storage_that_a_link_leads_away_from_is_not_offered_as_no_task_may_have_it(server: Server) -> None:
    share, real = server.folder / "share", server.folder / "real"
    for folder in ("share/well", "real/inner"):
        (server.folder / folder).mkdir(parents=True)
    (share / "data").symlink_to(real)
    (server.folder / "other").symlink_to(real)  # the administrator's own way to an allowed folder
    roots = [str(share), str(share / "well"), str(share / "data"), str(server.folder / "other" / "inner")]
    allowed = (str(share), str(server.folder / "other"))
    controller = server.controller(allowed=allowed)
    controller.want([StorageWish(name=Path(root).name, root=root, read_only=True) for root in roots])
    faults = controller.look().faults
    assert faults == {roots[2]: f"a link leads away from {roots[2]}: name the folder itself"}
    assert [Policy(mount_roots=allowed).allows_root(root) for root in roots] == [root not in faults for root in roots]


def test_one_that_somebody_mounted_before_without_them_gets_the_options_that_keep_rights_out(server: Server) -> None:
    wish = server.wish()
    Path(wish.root).mkdir(parents=True)
    subprocess.run(["bindfs", wish.export, wish.root], check=True)
    subprocess.run(["mount", "-o", "remount,bind,suid,dev,noexec", wish.root], check=True)
    controller = server.controller()
    controller.want([wish])
    assert controller.look() == StorageState((wish.root,), {}, {})
    lines = Path("/proc/self/mounts").read_text().splitlines()
    options = [line.split()[3].split(",") for line in lines if line.split()[1] == wish.root]
    assert [{"nosuid", "nodev", "noexec"} <= set(one) for one in options] == [True]


def test_other_options_of_a_storage_that_is_mounted_hold_from_then_on(server: Server) -> None:
    controller = server.controller()
    controller.want([server.wish()])
    controller.look()
    (server.own / "data" / "first").touch()

    controller.want([server.wish(read_only=True)])
    assert controller.look() == StorageState((str(server.own / "data"),), {})
    with pytest.raises(OSError, match="Read-only"):
        (server.own / "data" / "second").touch()

    again = server.controller()  # an agent that was restarted knows with what it is mounted
    again.want([server.wish()])
    assert again.look().faults == {}
    (server.own / "data" / "second").touch()
    assert server.mounts() == ["data"]


def test_a_server_that_hangs_holds_nobody_up_and_comes_back_by_itself(server: Server) -> None:
    controller = server.controller()
    controller.want([server.wish(), server.wish("well")])
    assert controller.look().faults == {}
    server.process().suspend()
    began = time.monotonic()
    for _ in range(3):
        state = controller.look()
    assert faults(state) == {"data": f"{server.own}/data does not answer: its file server is away"}
    assert state.roots == (str(server.own / "well"),)
    assert time.monotonic() - began < 4, "asked once, and not again before it answers"
    assert not controller.is_available(str(server.own / "data"))
    server.process().resume()
    wait_until(lambda: controller.look().faults == {}, "the server to be back")


# ---------------------------------------------------------------- tasks whose file server has just died


@pytest.fixture
def node(server: Server) -> Node:
    """It has not noticed yet that a server is away."""
    return Node(server.folder / "node", policy=Policy(mount_roots=(str(server.own),)))


def on_the_storage(server: Server, **changes: Any) -> ContainerSpec:
    root = str(server.own / "data")
    mount = Mount(storage="data", root=root, source=f"{root}/job", target="/job", create=True)
    return spec_of("sleep", attempt="a-0", mounts=(mount,), uid=os.getuid() or 5000, **changes)


STOP = Stop(reason=StopReason.USER, grace_s=1)


@pytest.mark.parametrize("uses", ["checkpoint", "lease"])
def test_a_running_task_is_stopped_within_its_grace_though_its_file_server_died(
    server: Server, node: Node, uses: str
) -> None:
    """Its checkpoint lies there, or the lease that the agent touches as long as its container is frozen."""
    controller = server.controller()
    controller.want([server.wish()])
    controller.look()
    place = server.own / "data" / "job" / ".berth" / uses
    node.runtime = MemoryRuntime(obeys=lambda number: number == signal.SIGKILL, output=Backlog)
    spec = on_the_storage(server, **{uses: str(place)})

    def touched() -> bool:
        supervisor.wake(spec.attempt)
        return place.stat().st_mtime > 0

    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
        if uses == "lease":
            place.touch()
            os.utime(place, (0, 0))
            wait_until(touched, "the agent to touch the lease")
        server.process().suspend()
        for _ in range(3):
            supervisor.wake(spec.attempt)
            time.sleep(0.1)
        supervisor.take(desired(2, order(spec, Phase.STOP, STOP)))
        began = time.monotonic()
        ended = wait_for(supervisor, spec, in_state(ContainerState.TERMINATED))
        assert time.monotonic() - began < 5
    assert ended.exit is not None
    assert (ended.exit.cause, node.runtime.signals[:2]) == (Cause.STOPPED, [signal.SIGTERM, signal.SIGKILL])


def test_a_task_that_is_being_prepared_is_stopped_though_its_file_server_died(server: Server, node: Node) -> None:
    controller = server.controller()
    controller.want([server.wish()])
    controller.look()
    server.process().suspend()
    spec = on_the_storage(server)
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, lambda report: True)
        time.sleep(0.3)
        supervisor.take(desired(2, order(spec, Phase.STOP, STOP)))
        ended = wait_for(supervisor, spec, in_state(ContainerState.TERMINATED))
    assert ended.exit is not None
    assert (ended.exit.cause, node.runtime.containers) == (Cause.STOPPED, {})


def test_what_is_known_of_a_storage_comes_back_with_its_server(server: Server) -> None:
    controller = server.controller()
    controller.want([server.wish(), server.wish("well")])
    controller.look()
    errands = BackgroundCalls()
    here, there = (server.own / name / "file" for name in ("data", "well"))
    looks = [BackgroundCall(str(path.parent), path.exists, False) for path in (here, there)]
    assert [errands.run(look) for look in looks] == [False, False]
    here.touch()
    there.touch()
    server.process().suspend()
    assert [errands.run(look) for look in looks] == [False, True], "one that is away holds no other up"
    began = time.monotonic()
    assert not any(errands.run(looks[0]) for _ in range(100))
    assert time.monotonic() - began < 0.3, "what is under way is not waited for again"
    server.process().resume()
    wait_until(lambda: errands.run(looks[0]), "the server to be back")
    errands.close()


def test_a_stale_one_is_mounted_anew(server: Server) -> None:
    controller = server.controller()
    controller.want([server.wish()])
    controller.look()
    process = server.process()
    process.kill()
    process.wait(5)
    wait_until(lambda: controller.look().faults == {}, "another mount")
    assert server.mounts() == ["data"]
    assert (server.own / "data").is_dir()


def test_a_storage_inside_another_is_never_mounted_through_a_link(server: Server) -> None:
    """The folders of an export are its users': one of them could lead anywhere on this server."""
    target = server.own / "etc"
    target.mkdir(parents=True)
    (server.export("data") / "inner").symlink_to(target)
    controller = server.controller()
    controller.want([server.wish(), server.wish("inner", root=str(server.own / "data" / "inner"))])
    inside = f"it lies inside {server.own}/data: whoever writes there could put a link in its place"
    assert controller.look().faults == {f"{server.own}/data/inner": inside}
    assert server.mounts() == ["data"], "nothing in the link's folder"


@pytest.mark.parametrize(
    ("changes", "limits", "fault"),
    [
        ({"export": "filer:/data"}, {"servers": ("other", "nas*")}, "its agent may mount nothing from filer"),
        ({"export": "evil:/a.lab:/b"}, {"servers": ("*.lab",)}, "its agent may mount nothing from evil"),
        ({"export": "evil:x.lab:/b"}, {"servers": ("*.lab",)}, "evil:x.lab:/b names no server and folder"),
        ({"export": "evil,x.lab:/b"}, {"servers": ("*.lab",)}, "evil,x.lab:/b names no server and folder"),
        ({"export": "LABEL=x.lab:/b"}, {"servers": ("*.lab",)}, "LABEL=x.lab:/b names no server and folder"),
        ({"options": "vers=4.2,suid"}, {}, "the mount option suid is not allowed"),
        ({"options": "vers=4.2,context=x y"}, {}, "the mount option context=x y is not allowed"),
        ({"root": "/mnt/elsewhere"}, {}, "its agent allows no storage at /mnt/elsewhere (BERTH_NODE_MOUNT_ROOTS), and"),
        ({"export": "/nowhere/at/all"}, {}, "/nowhere/at/all cannot be mounted: "),
    ],
)
def test_what_cannot_be_mounted_says_why(
    server: Server, changes: dict[str, str], limits: dict[str, Any], fault: str
) -> None:
    controller = server.controller(**limits)
    controller.want([server.wish(**changes)])
    (told,) = controller.look().faults.values()
    assert told.startswith(fault)
    assert server.mounts() == []


def test_nfs_itself_says_whether_the_file_server_or_this_server_lacks_something(server: Server) -> None:
    controller = server.controller(kind="nfs", servers=("127.0.0.1",))
    controller.want([server.wish(export="127.0.0.1:/nothing", options="vers=4.2,retry=0,timeo=1,retrans=1,soft")])
    began = time.monotonic()
    (told,) = controller.look().faults.values()
    assert time.monotonic() - began < 8
    # Looked at afterwards: the kernel loads what it has for the mount.
    known = {"nfs", "nfs4"} & set(Path("/proc/filesystems").read_text().split())
    able = known and shutil.which("mount.nfs", path="/sbin:/usr/sbin")
    assert told.startswith("127.0.0.1:/nothing cannot be mounted: " if able else LACKING)


def test_a_server_whose_kernel_has_the_file_system_alone_is_told_what_to_install(server: Server) -> None:
    """`tmpfs` in the place of NFS: it has no program of its own that would understand these options, either."""
    controller = server.controller(kind="tmpfs", servers=("127.0.0.1",))
    controller.want([server.wish(export="127.0.0.1:/nothing", options="vers=4.2")])
    (told,) = controller.look().faults.values()
    assert told.startswith(LACKING)
    assert server.mounts() == []


def test_folders_of_the_administrators_are_looked_at_too(server: Server) -> None:
    plain = server.folder / "plain"
    plain.mkdir()
    controller = server.controller(allowed=(str(plain), str(server.folder / "gone")))
    wishes = [
        StorageWish(name="plain", root=str(plain)),
        StorageWish(name="mount", root=f"{plain}/m", must_be_mount=True),
        StorageWish(name="sub", root=f"{plain}/sub"),
    ]
    controller.want(wishes)
    state = controller.look()
    assert state.roots == (str(plain),)
    assert faults(state)["m"] == f"nothing is mounted at {plain}/m"
    assert "No such file" in faults(state)["sub"]
    assert "plain" not in faults(state)


def test_a_users_folder_is_the_users_alone_and_none_is_made_where_nothing_is_mounted(server: Server) -> None:
    controller = server.controller()
    wish = server.wish()
    controller.want([wish])
    controller.look()
    own = Mount(
        storage="data", root=wish.root, source=f"{wish.root}/alice", target="/data", create=True, must_be_mount=True
    )
    with mount_open(own, uid=5000, gid=6000) as folder:
        facts = os.fstat(folder)
    assert (facts.st_uid, facts.st_gid, facts.st_mode & 0o7777) == (5000, 6000, 0o700)
    shutil.rmtree(server.export("data") / "alice")
    (server.export("data") / "alice").symlink_to("/etc")
    with pytest.raises(AttemptFailed, match="is no plain folder"), mount_open(own, uid=5000, gid=6000):
        pass
    (server.export("data") / "alice").unlink()
    subprocess.run(["umount", wish.root], check=True)
    with pytest.raises(AttemptFailed, match="is not mounted"), mount_open(own, uid=5000, gid=6000):
        pass
    assert list(Path(wish.root).iterdir()) == []
