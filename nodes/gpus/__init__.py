"""GPUs of a node: inventory, samples, processes and health."""

from nodes.gpus.base import GpuBackend, GpusUnavailable, PidOwner

__all__ = ["GpuBackend", "GpusUnavailable", "PidOwner"]
