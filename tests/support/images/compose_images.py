"""What the compose stack's images are made of where no registry is reached: Debian from its mirror, with Python, and
with PostgreSQL, Redis and Caddy in the place of their official images; and Docker's plug-in `compose`."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.support.images import images
from tests.support.services.docker_engine import DockerEngine

DEBIAN = "berth-test/debian:12"
POSTGRES = "berth-test/postgres:15"
PROMETHEUS = "berth-test/prometheus:2"
MIRROR = "http://deb.debian.org/debian"
PACKAGES = "python3,python3-venv,ca-certificates,postgresql,redis-server,caddy,wget"
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
PLUGIN_RELEASE = "trixie"
"""Debian's release that has the plug-in in the version that docs/admin/install.md asks for."""


def debian_image(engine: DockerEngine) -> str:
    """The image's name, once the Engine has it. Raises CalledProcessError where Debian's mirror is not reached."""
    path = images.cache_folder() / "debian-12-compose.tar"
    if not path.exists():
        partial = path.with_suffix(".part.tar")
        _bootstrap(partial)
        partial.rename(path)
    # The machine's authorities, since packages come to the build by the machine's own way.
    told = [f"ENV {name}={AUTHORITIES}" for name in ("PIP_CERT", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")]
    with engine.client() as client:
        name, tag = DEBIAN.split(":")
        client.api.import_image_from_file(str(path), repository=name, tag=tag, changes=told)
    return DEBIAN


def prometheus_image(environment: Mapping[str, str]) -> None:
    """This machine's own, Debian's too, to be used as the official image is. Raises CalledProcessError, OSError."""
    recipe = (
        f"FROM {DEBIAN}\nCOPY prometheus /usr/local/bin/\n"
        'RUN install -d -o 65534 -g 65534 /prometheus\nENTRYPOINT ["prometheus"]\n'
    )
    with tempfile.TemporaryDirectory(prefix="berth-prometheus-") as folder:
        Path(folder, "Dockerfile").write_text(recipe)
        shutil.copy(shutil.which("prometheus") or "prometheus", folder)
        subprocess.run(
            ["docker", "build", "-q", "-t", PROMETHEUS, folder], check=True, capture_output=True, env=environment
        )


def _bootstrap(target: Path) -> None:
    left_out = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")]
    authorities = ssl.get_default_verify_paths().cafile or AUTHORITIES
    with tempfile.TemporaryDirectory(prefix="berth-authorities-") as folder:
        copy = shutil.copy(authorities, Path(folder, Path(AUTHORITIES).name))
        hook = f"--customize-hook=copy-in {copy} {Path(AUTHORITIES).parent}"
        command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", *left_out, hook]
        subprocess.run([*command, "bookworm", str(target), MIRROR], check=True, capture_output=True)


def compose_plugin(folder: Path) -> dict[str, str]:
    """What the environment must say for `docker compose` to work: nothing where it does, else a folder with Debian's.
    Raises CalledProcessError."""
    if subprocess.run(["docker", "compose", "version"], check=False, capture_output=True).returncode == 0:
        return {}
    plugin = images.cache_folder() / "docker-compose"
    if not plugin.exists():
        with tempfile.TemporaryDirectory(prefix="berth-compose-") as temporary:
            _download(Path(temporary))
            shutil.copy(next(Path(temporary).glob("files/usr/libexec/docker/cli-plugins/docker-compose")), plugin)
    plugins = folder / "docker-config" / "cli-plugins"
    plugins.mkdir(parents=True)
    shutil.copy(plugin, plugins)
    return {"DOCKER_CONFIG": str(plugins.parent)}


def _download(folder: Path) -> None:
    """The package as it lies in the archive, by an own list of sources: nothing of the machine's is touched."""
    signed = "signed-by=/usr/share/keyrings/debian-archive-keyring.gpg"
    (folder / "sources.list").write_text(f"deb [{signed}] {MIRROR} {PLUGIN_RELEASE} main\n")
    (folder / "lists").mkdir()
    settings = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder,
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    apt = ["apt-get", "-q", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]
    for command in ([*apt, "update"], [*apt, "download", "docker-compose"]):
        subprocess.run(command, check=True, capture_output=True, cwd=folder)
    (package,) = folder.glob("docker-compose*.deb")
    subprocess.run(["dpkg-deb", "-x", package, folder / "files"], check=True, capture_output=True)
