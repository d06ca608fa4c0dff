"""GPUs by NVIDIA's management library. Every question but the device's name is optional: what a GPU, a driver or a
permission does not answer is None, never an error."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import structlog

from nodes.agent.hardware.gpus.activity import ActivityWatch
from nodes.agent.hardware.gpus.base import GpusUnavailable, GpuUse, PidOwner
from nodes.agent.hardware.gpus.groups import groups_of
from nodes.agent.hardware.gpus.health import LOST, Signs, Xid, fault_of
from nodes.agent.hardware.gpus.xids import XidWatch
from nodes.protocol.messages import GpuInfo, GpuProcess, GpuSample

MIB = 1 << 20
PCI_DEVICES = Path("/sys/bus/pci/devices")

THROTTLE = {
    pynvml.nvmlClocksEventReasonSwPowerCap: "power cap",
    pynvml.nvmlClocksEventReasonHwSlowdown: "hardware slowdown",
    pynvml.nvmlClocksEventReasonSwThermalSlowdown: "heat",
    pynvml.nvmlClocksEventReasonHwThermalSlowdown: "heat (hardware)",
    pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "power brake",
}

logger = structlog.get_logger(__name__)


class NvmlBackend:
    """The real GPUs of this machine. Raises GpusUnavailable when there is no driver or no library. ``pci_devices``:
    where the kernel has the NUMA node of a PCI device."""

    simulated = False

    def __init__(self, pci_devices: Path = PCI_DEVICES) -> None:
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise GpusUnavailable(f"the NVIDIA driver does not answer: {error}") from error
        self._pci_devices = pci_devices
        self._lock = threading.Lock()
        self._known: dict[str, GpuInfo] = {}
        self._open = True
        self._xids = XidWatch()
        self._activity = ActivityWatch()
        self.inventory()  # one that is lost later is known by then

    def inventory(self) -> tuple[GpuInfo, ...]:
        handles = self._handles()
        with self._lock:
            if handles.keys() - self._known.keys():
                self._known |= self._described(handles)
            known = sorted(self._known.values(), key=lambda info: info.index)
        return tuple(self._with_health(info, handles.get(info.uuid)) for info in known)

    def sample(self, pid_owner: PidOwner) -> tuple[GpuSample, ...]:
        handles = self._handles()
        return tuple(self._sample(info.uuid, handles.get(info.uuid), pid_owner) for info in self.inventory())

    def holders(self, uuid: str) -> tuple[int, ...]:
        handle = self._handles().get(uuid)
        return tuple(sorted({process.pid for process in _processes(handle)})) if handle is not None else ()

    def use(self, uuid: str) -> GpuUse | None:
        handle = self._handles().get(uuid)
        memory = _memory(handle) if handle is not None else None
        listed = _ask(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, handle) if handle is not None else None
        if memory is None or listed is None:
            return None
        used, mig = memory.used // MIB, _ask(pynvml.nvmlDeviceGetMigMode, handle)
        # Where the driver does not tell each one's memory, it may be all.
        processes = {one.pid: used if one.usedGpuMemory is None else one.usedGpuMemory // MIB for one in listed}
        return GpuUse(used, memory.free // MIB, processes, mig=bool(mig and mig[0]))

    def close(self) -> None:
        if self._open:
            self._open = False
            self._xids.close()
            self._activity.close()
            _ask(pynvml.nvmlShutdown)

    def _handles(self) -> dict[str, Any]:
        """NVML's handle of each GPU that answers now, by UUID."""
        found = {}
        for index in range(self._count()):
            handle = _ask(pynvml.nvmlDeviceGetHandleByIndex, index)
            uuid = _ask(pynvml.nvmlDeviceGetUUID, handle) if handle is not None else None
            if uuid is not None:
                found[uuid] = handle
        self._xids.watch(found)
        return found

    def _count(self) -> int:
        """Number of GPUs; asked in a new session after the driver was reloaded."""
        count = _ask(pynvml.nvmlDeviceGetCount)
        if count is None and self._open:
            _ask(pynvml.nvmlInit)
            count = _ask(pynvml.nvmlDeviceGetCount)
            if count is not None:
                self._xids.renew()
        return count or 0

    def _described(self, handles: dict[str, Any]) -> dict[str, GpuInfo]:
        """The constant facts of each GPU."""
        order = list(handles.values())
        nvlink = groups_of(len(order), lambda a, b: _nvlinked(order[a], order[b]))
        pcie = groups_of(len(order), lambda a, b: _one_switch(order[a], order[b]))
        described = {}
        for position, (uuid, handle) in enumerate(handles.items()):
            described[uuid] = dataclasses.replace(
                self._identity(uuid, handle, position), nvlink_group=nvlink[position], pcie_group=pcie[position]
            )
        return described

    def _identity(self, uuid: str, handle: Any, position: int) -> GpuInfo:
        index, memory = _ask(pynvml.nvmlDeviceGetIndex, handle), _memory(handle)
        pci = _ask(pynvml.nvmlDeviceGetPciInfo_v3, handle)
        cuda = _ask(pynvml.nvmlSystemGetCudaDriverVersion)
        bus = _text(pci.busId) if pci else ""
        return GpuInfo(
            uuid=uuid,
            index=position if index is None else index,
            model=_ask(pynvml.nvmlDeviceGetName, handle) or "unknown",
            memory_mb=memory.total // MIB if memory else 0,
            pci=bus,
            numa=self._numa(bus),
            driver=_ask(pynvml.nvmlSystemGetDriverVersion) or "",
            cuda=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "",
        )

    def _with_health(self, info: GpuInfo, handle: Any) -> GpuInfo:
        if handle is None:
            return dataclasses.replace(info, healthy=False, fault=LOST)
        fault = fault_of(_signs(handle, self._xids.newest(info.uuid), info.index))
        return dataclasses.replace(info, healthy=not fault, fault=fault)

    def _sample(self, uuid: str, handle: Any, pid_owner: PidOwner) -> GpuSample:
        if handle is None:
            return GpuSample(uuid=uuid)
        utilisation, memory = _ask(pynvml.nvmlDeviceGetUtilizationRates, handle), _memory(handle)
        power = _ask(pynvml.nvmlDeviceGetPowerUsage, handle)
        reasons = _ask(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle) or 0
        busy = self._activity.of_processes(uuid, handle)
        return GpuSample(
            uuid=uuid,
            utilisation=utilisation.gpu if utilisation else None,
            memory_used_mb=memory.used // MIB if memory else None,
            temperature_c=_ask(pynvml.nvmlDeviceGetTemperatureV, handle, pynvml.NVML_TEMPERATURE_GPU),
            power_w=None if power is None else power // 1000,
            sm_clock_mhz=_ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
            throttle=tuple(name for bit, name in THROTTLE.items() if reasons & bit),
            ecc_uncorrected=_uncorrected(handle),
            **self._activity.of_gpu(uuid, handle),
            processes=tuple(
                GpuProcess(
                    pid=one.pid,
                    memory_mb=(one.usedGpuMemory or 0) // MIB,
                    attempt=pid_owner(one.pid),
                    utilisation=None if busy is None else busy.get(one.pid, 0),
                )
                for one in _processes(handle)
            ),
        )

    def _numa(self, bus: str) -> int | None:
        """The kernel's NUMA node of a PCI device; None where it has none. NVML writes domains with 8 digits."""
        try:
            node = int((self._pci_devices / bus.lower()[-12:] / "numa_node").read_text())
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None


def _ask(call: Callable[..., Any], *arguments: Any) -> Any:
    """NVML's answer, None where there is none: not supported, not permitted, not in this driver, GPU lost."""
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        logger.debug("nvml_no_answer", call=call.__name__, error=str(error))
        return None


def _signs(handle: Any, xid: Xid | None, index: int) -> Signs:
    rows = _ask(pynvml.nvmlDeviceGetRemappedRows, handle)
    mig = _ask(pynvml.nvmlDeviceGetMigMode, handle)
    return Signs(
        recovery=_field(handle, pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION),
        remap_pending=bool(rows[2]) if rows else None,
        remap_failed=bool(rows[3]) if rows else None,
        uncorrected=_uncorrected(handle),
        xid=xid,
        mig=bool(mig[0]) if mig else None,
        index=index,
    )


def _field(handle: Any, field: int) -> int | None:
    values = _ask(pynvml.nvmlDeviceGetFieldValues, handle, [field])
    if not values or values[0].nvmlReturn != pynvml.NVML_SUCCESS:
        return None
    return int(values[0].value.uiVal)


def _uncorrected(handle: Any) -> int | None:
    counted: int | None = _ask(
        pynvml.nvmlDeviceGetTotalEccErrors,
        handle,
        pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        pynvml.NVML_VOLATILE_ECC,
    )
    return counted


def _memory(handle: Any) -> Any:
    """Memory without the driver's own reserve, where the driver can separate the two."""
    return _ask(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2) or _ask(
        pynvml.nvmlDeviceGetMemoryInfo, handle
    )


def _processes(handle: Any) -> list[Any]:
    return _ask(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, handle) or []


def _nvlinked(one: Any, other: Any) -> bool:
    status = _ask(pynvml.nvmlDeviceGetP2PStatus, one, other, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
    return bool(status == pynvml.NVML_P2P_STATUS_OK)


def _one_switch(one: Any, other: Any) -> bool:
    """Whether nothing but PCIe switches lies between the two."""
    level = _ask(pynvml.nvmlDeviceGetTopologyCommonAncestor, one, other)
    return level is not None and level <= pynvml.NVML_TOPOLOGY_MULTIPLE


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
