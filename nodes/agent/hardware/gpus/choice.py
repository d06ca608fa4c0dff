"""Choice of the GPU backend, by the agent's setting."""

from __future__ import annotations

from pathlib import Path

import structlog

from nodes.agent.hardware.gpus.base import AttemptByGpu, GpuBackend, GpusUnavailable
from nodes.agent.hardware.gpus.nvml import PCI_DEVICES, NvmlBackend
from nodes.agent.hardware.gpus.simulated import SimulatedBackend

AUTO_DECLARATION = "4xA100-80GB"
CURE = "install NVIDIA's driver (nvidia-smi must list the GPUs), or declare simulated ones in BERTH_NODE_GPUS"
NVIDIA, DISPLAY = "0x10de", "0x03"
"""PCI ids from the kernel: the vendor, and the class of display and compute devices."""

logger = structlog.get_logger(__name__)


def backend_from(text: str, *, node: str, held: AttemptByGpu, pci_devices: Path = PCI_DEVICES) -> GpuBackend:
    """The backend for ``nvml``; ``simulated:<declaration>``; ``auto``, the machine's GPUs, four simulated ones where it
    has none; ``demo``, the same where its GPUs have no driver.

    ``held`` makes simulated ones busy. Raises GpusUnavailable when the setting cannot be met: a server without its
    driver must not offer GPUs that do not exist.
    """
    kind, _, declaration = text.strip().partition(":")
    if kind == "nvml" and not declaration:
        return _real()
    if kind == "simulated" and declaration:
        return SimulatedBackend(declaration, node=node, held=held)
    if text.strip() in {"auto", "demo"}:
        return _found(text.strip(), pci_devices) or SimulatedBackend(AUTO_DECLARATION, node=node, held=held)
    raise GpusUnavailable(f'"{text}" names no GPUs: use nvml, auto or simulated:4xA100-80GB')


def _real() -> GpuBackend:
    try:
        return NvmlBackend()
    except GpusUnavailable as error:
        raise GpusUnavailable(f"{error}: {CURE}.") from error


def _found(setting: str, pci_devices: Path) -> GpuBackend | None:
    try:
        backend = NvmlBackend()
    except GpusUnavailable as error:
        cards = nvidia_cards(pci_devices)
        if cards and setting == "auto":
            raise GpusUnavailable(f"this server has {cards} NVIDIA cards, and {error}: {CURE}.") from error
        logger.warning("GPUs are simulated: this server has none that answers", reason=str(error), cure=CURE)
        return None
    if backend.inventory():
        return backend
    backend.close()
    logger.warning("GPUs are simulated: NVIDIA's driver lists none", cure=CURE)
    return None


def nvidia_cards(pci_devices: Path = PCI_DEVICES) -> int:
    """Number of NVIDIA cards on the bus, with a driver or without."""
    return sum(_is_card(device) for device in pci_devices.iterdir()) if pci_devices.is_dir() else 0


def _is_card(device: Path) -> bool:
    try:
        vendor, what = (device / "vendor").read_text(), (device / "class").read_text()
    except OSError:
        return False
    return vendor.strip() == NVIDIA and what.startswith(DISPLAY)
