"""Health of a GPU, in words. The portal fences a sick GPU; only people clear it, except for one whose mode is to be
switched back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from nodes.protocol.names import MIG_MODE

USER_XIDS = frozenset({13, 31, 43, 45, 68, 109})
"""Xid errors caused by programs, not hardware (the list of NVIDIA's Kubernetes device plugin)."""

RECOVERY = {
    1: "the driver asks for a reset of this GPU",
    2: "the driver asks for a restart of the node",
    3: "the driver asks to drain the GPUs that talk to this one",
    4: "the driver asks to drain this GPU and reset it",
    5: "the driver asks to recover the IMEX domain",
    6: "the driver asks for a reset of the bus",
    7: "the driver asks for a restart of the system",
}
"""NVML's GPU recovery action (0: none)."""

LOST = "the GPU is lost: it no longer answers the driver"


class Xid(NamedTuple):
    """A hardware error by NVIDIA's number, and its count on this GPU since the agent started."""

    number: int
    times: int = 1


@dataclass(frozen=True, slots=True)
class Signs:
    """The driver's signs of one GPU's health; None where it reports nothing.

    ``recovery``: NVML's recovery action; ``remap_pending``, ``remap_failed``: row remapping; ``uncorrected``: memory
    errors since the driver was loaded; ``xid``: newest hardware Xid since the agent started; ``mig``: MIG mode is on;
    ``index``: the GPU's number, for its cure.
    """

    recovery: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    uncorrected: int | None = None
    xid: Xid | None = None
    mig: bool | None = None
    index: int = 0


def fault_of(signs: Signs) -> str:
    """The gravest sign as a sentence; "" for a healthy GPU. The driver's own verdict comes first, last a mode in which
    no job can have the whole GPU."""
    if signs.recovery:
        return RECOVERY.get(signs.recovery, f"the driver asks for recovery action {signs.recovery}")
    if signs.remap_failed:
        return "a memory row could not be remapped: this GPU is worn out"
    if signs.remap_pending:
        return "a memory row waits to be remapped: this GPU needs a reset"
    if signs.xid is not None:
        again = f" ({signs.xid.times} in all)" if signs.xid.times > 1 else ""
        return f"hardware error Xid {signs.xid.number}{again}"
    if signs.uncorrected:
        return f"{signs.uncorrected} uncorrectable memory errors since the driver was loaded"
    if signs.mig:
        return f"{MIG_MODE}which Berth does not share yet: nvidia-smi -i {signs.index} -mig 0 switches it off"
    return ""
