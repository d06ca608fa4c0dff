"""A real Docker Engine for the tests: its own data, socket and bridge, nothing shared with the machine's own.

It leaves the machine's firewall alone: published ports are served by Docker's own proxy, and containers reach
no network but the machine itself. It knows the GPU driver `nvidia` through a hook of three lines, so that real
device requests with UUIDs are accepted and arrive in the container's environment; with the GPUs of a made-up machine
its hook binds these in.
"""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import docker
from docker.errors import DockerException, NotFound

from tests.support.gpu import container_hook
from tests.support.gpu.machine import Machine
from tests.support.images import images
from tests.support.run.waiting import wait_until
from tests.support.services.guard import Guard
from tests.support.services.processes import Process

HOOK = "#!/bin/sh\ncat >/dev/null\nexit 0\n"


class DockerEngine:
    """dockerd over a containerd of its own. Containers outlive `kill` and `restart` of dockerd (live-restore)."""

    def __init__(self, folder: Path, guard: Guard, *, bridge: bool = True) -> None:
        """``bridge``: one of its own, else containers have the machine's network or none."""
        self.folder, self._has_bridge = folder, bridge
        self.url = f"unix://{folder}/docker.sock"
        self._guard = guard
        self._containerd = self._process("containerd", self._containerd_command())
        self._dockerd = self._process("dockerd", ["dockerd", "--config-file", folder / "daemon.json"])

    def start(self) -> None:
        if not (self.folder / "daemon.json").exists():
            self._prepare()
            self._containerd.start()
        self.begin()
        wait_until(self.answers, "the Docker Engine")

    def begin(self) -> None:
        """Start the daemon, prepared before, and wait for nothing."""
        self._dockerd.start()

    def answers(self) -> bool:
        with contextlib.suppress(DockerException), self.client() as client:
            return bool(client.ping())
        return False

    @contextlib.contextmanager
    def client(self) -> Iterator[docker.DockerClient]:
        with contextlib.closing(docker.DockerClient(base_url=self.url, version="auto", timeout=60)) as client:
            yield client

    def kill(self) -> None:
        self._dockerd.kill()

    def stop(self) -> None:
        self._dockerd.stop()

    def restart(self) -> None:
        self.kill()
        self.start()

    def forget_end(self, container: str, *, wholly: bool) -> None:
        """As an Engine that is killed when it has heard of a container's end and not yet written it down: it has taken
        the task from containerd by then and, ``wholly``, the container too."""
        ctr = ["ctr", "--address", f"{self.folder}/containerd.sock", "--namespace", "moby"]
        subprocess.run([*ctr, "tasks", "delete", "--force", container], check=True, capture_output=True)
        if wholly:
            subprocess.run([*ctr, "containers", "delete", container], check=True, capture_output=True)

    def forget_start(self, container: str) -> None:
        """As an Engine that is killed when containerd has begun a container and it has not yet written that down. It is
        away now."""
        file = self.folder / "data" / "containers" / container / "config.v2.json"
        config = json.loads(file.read_text())
        config["State"] |= {"Running": False, "Pid": 0, "StartedAt": "0001-01-01T00:00:00Z"}
        file.write_text(json.dumps(config))

    def tail(self) -> str:
        return self._dockerd.tail()

    def remove_containers(self) -> None:
        """What the tests left behind, so that no test meets another's containers."""
        with self.client() as client:
            for container in client.containers.list(all=True, ignore_removed=True):
                with contextlib.suppress(NotFound):
                    container.remove(force=True, v=True)

    def ensure_image(self, name: str) -> str:
        """Import the image unless it is there already. Returns its name."""
        with self.client() as client:
            if not client.images.list(name=name):
                repository, _, tag = name.partition(":")
                path = images.archive(name)
                client.api.import_image_from_file(
                    str(path), repository=repository, tag=tag or "latest", changes=images.CHANGES
                )
        return name

    @contextlib.contextmanager
    def with_gpus(self, machine: Machine) -> Iterator[None]:
        """Containers that are given GPUs get this machine's."""
        hook = self.folder / "hooks" / "nvidia-container-runtime-hook"
        hook.write_text(container_hook.text(machine))
        try:
            yield
        finally:
            hook.write_text(HOOK)

    def _process(self, name: str, command: Sequence[str | Path]) -> Process:
        env = {**os.environ, "PATH": f"{self.folder}/hooks:{os.environ['PATH']}"}
        return Process(name, command, guard=self._guard, log=self.folder.parent / f"{name}.log", env=env)

    def _containerd_command(self) -> list[str]:
        folder = self.folder / "containerd"
        return [
            *("containerd", "--config", f"{self.folder}/containerd.toml", "--address", f"{folder}.sock"),
            *("--root", f"{folder}/root", "--state", f"{folder}/state"),
        ]

    def _prepare(self) -> None:
        hook = self.folder / "hooks" / "nvidia-container-runtime-hook"
        hook.parent.mkdir(parents=True)
        hook.write_text(HOOK)
        hook.chmod(0o755)
        (self.folder / "containerd.toml").write_text('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
        (self.folder / "daemon.json").write_text(json.dumps(self._config()))

    def _config(self) -> dict[str, object]:
        return {
            "hosts": [self.url],
            "containerd": f"{self.folder}/containerd.sock",
            "data-root": f"{self.folder}/data",
            "exec-root": f"{self.folder}/exec",
            "pidfile": f"{self.folder}/docker.pid",
            "bridge": self._bridge() if self._has_bridge else "none",
            "iptables": False,
            "ip6tables": False,
            "live-restore": True,
        }

    def _bridge(self) -> str:
        """A bridge of this engine's own, on a subnet drawn from the process id."""
        name = f"berth{os.getpid()}"[-15:]
        subnet = f"10.{200 + os.getpid() // 250 % 50}.{os.getpid() % 250}.1/24"
        for step in (
            f"link add {name} type bridge",
            f"address add {subnet} dev {name}",
            f"link set {name} up",
        ):
            subprocess.run(["ip", *step.split()], check=True, capture_output=True)
        self._guard.add("bridge", name)
        return name
