"""What stands for NVIDIA's hook in the tests' Engine: it puts a made-up machine into containers that are given GPUs,
before their program begins, with the list of those that they were given."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.gpu.machine import Machine

LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")


def text(machine: Machine) -> str:
    """A program that the Engine starts for each such container."""
    root = Path(__file__).parents[3]
    return (
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(root)!r})\n"
        f"from tests.support.gpu.container_hook import run\n"
        f"run(sys.stdin.read(), {str(machine.folder)!r}, {machine.env['LD_LIBRARY_PATH']!r})\n"
    )


def run(state: str, machine: str, built: str) -> None:
    """``state``: the container's, as the OCI runtime tells it."""
    told = json.loads(state)
    config = json.loads(Path(told["bundle"], "config.json").read_text())
    root = Path(told["bundle"], config["root"]["path"])
    named = dict(one.split("=", 1) for one in config["process"]["env"])["NVIDIA_VISIBLE_DEVICES"]
    (root / "run/gpu-machine.visible").write_text(named.replace(",", "\n") + "\n")
    bind(told["pid"], Path(machine), root / "run/gpu-machine")
    for name in LIBRARIES:
        bind(told["pid"], Path(built, name), root / "usr/lib" / name)
    bind(told["pid"], Path(built, "trainer"), root / "usr/local/bin/trainer")


def bind(pid: int, source: Path, target: Path) -> None:
    """In the container's own view of the file system, which is not its root yet."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        target.mkdir(exist_ok=True)
    else:
        target.touch()
    command = ["nsenter", "--target", str(pid), "--mount", "mount", "--bind", str(source), str(target)]
    subprocess.run(command, check=True, capture_output=True)
