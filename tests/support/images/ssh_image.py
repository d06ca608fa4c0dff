"""An image with OpenSSH's server on busybox, from Debian's packages as they lie in the archive: installed, the server
would listen on this machine. Needs apt-get, but where a server is installed already."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.images import images
from tests.support.services.docker_engine import DockerEngine

SSH = "berth-test/ssh:3"
DOWNLOAD = ["apt-get", "-o", "APT::Sandbox::User=root", "-qq", "download"]
PACKAGE = "openssh-server"


def ssh_image(engine: DockerEngine) -> str:
    """The image's name, once the Engine has it."""
    images.BUILDS[SSH] = build_ssh
    return engine.ensure_image(SSH)


def build_ssh(root: Path) -> None:
    images.build_busybox(root)
    server = root / "usr/sbin/sshd"
    with tempfile.TemporaryDirectory(prefix="berth-sshd-") as temporary:
        for found in server_files(Path(temporary)):
            target = root / "usr" / Path(*found.parts[found.parts.index("usr") + 1 :])
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(found, target)
    clients = [Path(shutil.which(name) or f"/usr/bin/{name}") for name in ("ssh", "ssh-keygen")]
    for client in clients:
        images.place(root, client)
    images.place_libraries(root, [*clients, server, *root.glob("usr/lib/openssh/sshd*"), *root.glob("usr/lib/*/lib*")])
    with (root / "etc/passwd").open("a") as passwd:
        passwd.write("sshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n")


def server_files(folder: Path) -> list[Path]:
    """The server with what it starts, and those of its libraries that this machine has not installed."""
    root = Path("/")
    libraries: tuple[str, ...] = ()
    if not (root / "usr/sbin/sshd").exists():
        subprocess.run([*DOWNLOAD, PACKAGE, *libraries_lacking()], check=True, cwd=folder)
        root = folder / "files"
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, root], check=True)
        libraries = ("usr/lib/*/lib*.so*",)
    wanted = ("usr/sbin/sshd", "usr/lib/openssh/sshd*", *libraries)
    return [found for pattern in wanted for found in root.glob(pattern) if found.is_file()]


def libraries_lacking() -> list[str]:
    """The packages of libraries that the server depends on and this machine has not: which they are differs by release
    of Debian."""
    listed = subprocess.run(["apt-cache", "depends", PACKAGE], check=True, capture_output=True, text=True).stdout
    named = re.findall(r"^ +Depends: (lib\S+)$", listed, re.MULTILINE)
    return [name for name in named if subprocess.run(["dpkg", "-s", name], capture_output=True).returncode]
