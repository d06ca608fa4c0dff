"""Disks that are full: a small file system of its own, filled to its last byte. Only root may mount one."""

import contextlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def full_disk(folder: Path) -> Iterator[Path]:
    """A folder, made here, with no room left on its disk; what was written before it is asked for is none of it."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "full", str(folder)], check=True)
    try:
        fill(folder)
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Leave no byte on its disk."""
    for piece in (65536, 1):
        with contextlib.suppress(OSError), (folder / "ballast").open("ab", buffering=0) as file:
            while file.write(b"\0" * piece):
                continue
