"""Containers that an Engine has started and forgotten.

An Engine that is killed or stopped between a container's start in containerd and its own note of it calls the container
created when it comes back, while it runs or has run; started again, it would run twice. The sign is the shim that
containerd keeps beside every container it has made a task for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psutil

_SHIM = "containerd-shim"
_WAIT_S = 5.0


def end_forgotten(container: str) -> bool:
    """Ends what runs of a container, by its full id, that its Engine calls created. Whether there was anything: the
    shim's end makes containerd end everything it has begun, which is waited for. Does nothing where neither can be
    seen."""
    shims = list(_shims(container))
    begun: list[psutil.Process] = []
    for shim in shims:
        with contextlib.suppress(psutil.Error):
            begun += shim.children(recursive=True)
            shim.kill()
    psutil.wait_procs([*shims, *begun], _WAIT_S)
    return bool(shims)


def _shims(container: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or ()
        if words and _SHIM in words[0] and container in words:
            yield process
