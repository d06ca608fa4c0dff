"""GPU requests to an Engine: by CDI names where it knows them all, else by its driver ``nvidia``. Never by the runtime
of that name, under which the user's own variables would choose the GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from docker.types import DeviceRequest

_CDI_KIND = "nvidia.com/gpu="


def cdi_devices(info: Mapping[str, Any]) -> frozenset[str]:
    """NVIDIA's GPUs among the CDI devices of an Engine (``docker info``, from 28.2 on)."""
    names = (str(device.get("ID", "")) for device in info.get("DiscoveredDevices") or ())
    return frozenset(name for name in names if name.startswith(_CDI_KIND))


def cdi_names(gpus: Sequence[str], known: frozenset[str]) -> list[str]:
    """The CDI names of these GPUs (by UUID); empty where the Engine does not know every one of them."""
    names = [f"{_CDI_KIND}{uuid}" for uuid in gpus]
    return names if known.issuperset(names) else []


def gpu_requests(gpus: Sequence[str], known: frozenset[str]) -> list[DeviceRequest]:
    """Device requests that give a container these GPUs (by UUID) and no other."""
    if not gpus:
        return []
    if names := cdi_names(gpus, known):
        return [DeviceRequest(driver="cdi", device_ids=names)]
    return [DeviceRequest(driver="nvidia", device_ids=list(gpus), capabilities=[["gpu", "compute", "utility"]])]
