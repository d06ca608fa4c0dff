"""What GPUs are busy with: by counters of the GPU itself (GPM: Hopper and newer), and by process."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pynvml

LEAST_S = 0.1
"""Two looks at the counters lie at least this far apart, or what they tell means nothing."""

METRICS = {
    "sm_active": pynvml.NVML_GPM_METRIC_SM_UTIL,
    "sm_occupancy": pynvml.NVML_GPM_METRIC_SM_OCCUPANCY,
    "tensor_active": pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    "dram_active": pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
}


@dataclass(slots=True)
class _Look:
    """At a GPU's counters: NVML's sample, when it was taken, and what lay between it and the one before."""

    sample: Any
    at: float
    told: dict[str, int | None]


class ActivityWatch:
    """Keeps of each GPU what it was told last, since each reading is of the time between two. ``clock``: seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._looks: dict[str, _Look] = {}
        self._seen_us: dict[str, int] = {}

    def of_gpu(self, uuid: str, handle: Any) -> dict[str, int | None]:
        """Percent by METRICS since the look before; empty at the first, and where a GPU has no such counters."""
        with self._lock:
            before = self._looks.get(uuid)
            now = self._clock()
            if before is not None and now - before.at < LEAST_S:
                return before.told
            sample = None
            try:
                sample = _sampled(handle)
                told = _between(before.sample, sample) if before and sample is not None else {}
            except pynvml.NVMLError:  # no such call, no right to it, or a driver that was loaded anew
                told = {}
            if before is not None:
                _freed(before.sample)
                del self._looks[uuid]
            if sample is not None:
                self._looks[uuid] = _Look(sample, now, told)
            return told

    def of_processes(self, uuid: str, handle: Any) -> dict[int, int] | None:
        """Percent of the GPU's time by pid, of those that used it since the look before; None where nobody can say."""
        with self._lock:
            since_us = self._seen_us.get(uuid, 0)
            try:
                told = pynvml.nvmlDeviceGetProcessUtilization(handle, since_us)
            except pynvml.NVMLError_NotFound:
                return {}
            except pynvml.NVMLError:
                return None
            # Empty when all of them ended between NVML's two calls, for their number and for their samples.
            self._seen_us[uuid] = max((one.timeStamp for one in told), default=since_us)
        newest = sorted(told, key=lambda one: int(one.timeStamp))
        return {int(one.pid): _percent(float(one.smUtil)) or 0 for one in newest}

    def close(self) -> None:
        with self._lock:
            for look in self._looks.values():
                _freed(look.sample)
            self._looks.clear()


def _sampled(handle: Any) -> Any:
    """NVML's sample of the counters; None where the GPU has none. Raises NVMLError."""
    if not pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
        return None
    sample = pynvml.nvmlGpmSampleAlloc()
    try:
        return pynvml.nvmlGpmSampleGet(handle, sample)
    except pynvml.NVMLError:
        _freed(sample)
        raise


def _between(first: Any, second: Any) -> dict[str, int | None]:
    asked = pynvml.c_nvmlGpmMetricsGet_t(
        version=pynvml.NVML_GPM_METRICS_GET_VERSION, numMetrics=len(METRICS), sample1=first, sample2=second
    )
    for metric, number in zip(asked.metrics, METRICS.values(), strict=False):
        metric.metricId = number
    pynvml.nvmlGpmMetricsGet(asked)
    return {
        name: _percent(metric.value) if metric.nvmlReturn == pynvml.NVML_SUCCESS else None
        for name, metric in zip(METRICS, asked.metrics, strict=False)
    }


def _percent(value: float) -> int | None:
    """Drivers have been seen to tell more than all."""
    return min(100, max(0, round(value))) if math.isfinite(value) else None


def _freed(sample: Any) -> None:
    try:
        pynvml.nvmlGpmSampleFree(sample)
    except pynvml.NVMLError:
        return
