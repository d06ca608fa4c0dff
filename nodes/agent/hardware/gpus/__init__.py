"""GPUs of a node: inventory, samples, processes and health."""

from nodes.agent.hardware.gpus.base import GpuBackend, GpusUnavailable, Held, PidOwner
from nodes.agent.hardware.gpus.choice import backend_from, cards_there

__all__ = ["GpuBackend", "GpusUnavailable", "Held", "PidOwner", "backend_from", "cards_there"]
