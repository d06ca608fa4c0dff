"""Which GPUs an agent speaks of, after its setting."""

from __future__ import annotations

import contextlib

from nodes.gpus.base import GpuBackend, GpusUnavailable, Held
from nodes.gpus.nvml import NvmlBackend
from nodes.gpus.simulated import SimulatedBackend

AUTO_DECLARATION = "4xA100-80GB"


def backend_from(text: str, *, node: str, held: Held) -> GpuBackend:
    """``nvml``, ``simulated:<declaration>``, or ``auto``: the machine's GPUs, four simulated ones where it has none.

    ``held`` makes simulated ones busy. Raises GpusUnavailable when what was asked for cannot be had.
    """
    kind, _, declaration = text.strip().partition(":")
    if kind == "nvml" and not declaration:
        return NvmlBackend()
    if kind == "simulated" and declaration:
        return SimulatedBackend(declaration, node=node, held=held)
    if text.strip() == "auto":
        return _found() or SimulatedBackend(AUTO_DECLARATION, node=node, held=held)
    raise GpusUnavailable(f'"{text}" names no GPUs: use nvml, auto or simulated:4xA100-80GB')


def _found() -> GpuBackend | None:
    with contextlib.suppress(GpusUnavailable):
        backend = NvmlBackend()
        if backend.inventory():
            return backend
        backend.close()
    return None
