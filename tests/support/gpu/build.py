"""Builder of the libraries and programs of the made-up machine, by the C compiler; built once for each state of their
sources."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.images.images import cache_folder

SOURCES = Path(__file__).parent
SHARED = ("machine.c", "engine.c", "profiles.c")
LIBRARIES = {
    "libnvidia-ml.so.1": ("nvml.c", "nvml_use.c", "nvml_mig.c"),
    "libcuda.so.1": ("cuda.c", "cuda_memory.c", "cuda_work.c", "cuda_checkpoint.c", "cuda_lookup.c"),
}
FLAGS = ("-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden")


@functools.cache
def built(*extra: str) -> Path:
    """The folder with everything, made with these flags of the compiler beside the usual ones."""
    key = hashlib.sha256(repr((FLAGS, extra)).encode())
    for source in sorted((*SOURCES.glob("*.c"), *SOURCES.glob("*.h"), Path(__file__))):
        key.update(source.read_bytes())
    folder = cache_folder() / f"gpu-{key.hexdigest()[:12]}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(prefix="partial-gpu-", dir=cache_folder()) as temporary:
            made = Path(temporary, "made")
            made.mkdir(mode=0o755)
            build(made, extra)
            try:
                os.rename(made, folder)
            except OSError:  # another run was faster
                shutil.rmtree(made)
    return folder


def build(folder: Path, extra: Sequence[str]) -> None:
    """Raises CalledProcessError where the sources do not compile, FileNotFoundError without a compiler."""
    for name, sources in LIBRARIES.items():
        compile_to(folder / name, (*SHARED, *sources), ("-shared", f"-Wl,-soname,{name}", *extra))
    compile_to(folder / "trainer", ("trainer.c",), ("-ldl", *extra))


def compile_to(target: Path, sources: Sequence[str], flags: Sequence[str]) -> None:
    subprocess.run(
        ["gcc", *FLAGS, *flags, "-o", target, *(SOURCES / name for name in sources), "-lpthread"], check=True
    )
