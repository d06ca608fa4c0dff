"""Wall clocks that can be set, for real processes."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path


class Clock:
    """The wall clock of one machine, as all of its processes see it: true, or so many seconds off.

    libfaketime does the same and more, but answers Python's sleep with an error when it leaves monotonic clocks alone.
    """

    def __init__(self, file: Path, library: Path) -> None:
        self._file = file
        file.write_bytes(bytes(8))
        file.chmod(0o644)
        self.environment = {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(file)}

    def off_by(self, seconds: int) -> None:
        with self._file.open("r+b", buffering=0) as file:
            file.write(struct.pack("=q", seconds))


def clock_library(folder: Path) -> Path:
    """Compiles ``clock.c`` into this folder. Returns the library to be preloaded."""
    library = folder / "clock.so"
    source = Path(__file__).with_name("clock.c")
    subprocess.run(["gcc", "-O2", "-Wall", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return library
