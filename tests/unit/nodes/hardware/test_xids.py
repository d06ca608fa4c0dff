"""The watch for Xid errors goes on whatever the driver does: its events fail, a GPU comes later, another driver is
loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pynvml
import pytest
from structlog.testing import capture_logs

from nodes.agent.hardware.gpus.health import LOST, Xid
from nodes.agent.hardware.gpus.nvml import NvmlBackend
from nodes.agent.hardware.gpus.xids import XidWatch
from tests.support.gpu.machine import Machine
from tests.support.run.waiting import wait_until
from tests.unit.nodes.hardware.test_nvml import FIRST, SECOND

ECC, OFF_THE_BUS = 48, 79


@pytest.fixture
def backend(machine: Machine, tmp_path: Path) -> Iterator[NvmlBackend]:
    with closing(NvmlBackend(tmp_path)) as made:
        yield made


def fault(backend: NvmlBackend, uuid: str) -> str:
    return next(gpu.fault for gpu in backend.inventory() if gpu.uuid == uuid)


def test_a_gpu_that_is_seen_later_is_heard_of_too(machine: Machine) -> None:
    machine.state.ngpu = 1
    with closing(NvmlBackend()) as later:
        assert [gpu.uuid for gpu in later.inventory()] == [FIRST]
        machine.state.ngpu = 2
        assert len(later.inventory()) == 2
        machine.raise_xid(1, ECC)
        wait_until(lambda: fault(later, SECOND) == "hardware error Xid 48", "the error of the one that came later")


def test_errors_are_heard_after_another_driver_was_loaded(machine: Machine, backend: NvmlBackend) -> None:
    machine.raise_xid(0, ECC)
    wait_until(lambda: fault(backend, FIRST) == "hardware error Xid 48", "the first error")
    machine.no_driver()
    assert fault(backend, FIRST) == LOST
    machine.load_driver()
    machine.raise_xid(1, ECC)
    wait_until(lambda: fault(backend, SECOND) == "hardware error Xid 48", "an error of the new driver")
    assert fault(backend, FIRST) == "hardware error Xid 48"


def test_a_gpu_that_fell_off_the_bus_with_its_error_is_known_by_its_handle(
    machine: Machine, backend: NvmlBackend
) -> None:
    wait_until(lambda: machine.state.waits > 0, "the watch to wait")
    machine.gpu(0).lost = 1
    machine.raise_xid(0, OFF_THE_BUS)
    wait_until(lambda: backend._xids.newest(FIRST) == Xid(OFF_THE_BUS), "its error")
    machine.gpu(0).lost = 0
    assert fault(backend, FIRST) == "hardware error Xid 79"


@pytest.fixture
def watch(machine: Machine) -> Iterator[XidWatch]:
    """Of two GPUs, with a shorter pause than an agent's."""
    pynvml.nvmlInit()
    with closing(XidWatch(pause_s=0.05, calm_s=0.3)) as made:
        tell(made)
        yield made


def tell(watch: XidWatch) -> None:
    """As the agent does every few seconds."""
    watch.watch({uuid: pynvml.nvmlDeviceGetHandleByIndex(index) for index, uuid in enumerate((FIRST, SECOND))})


@pytest.mark.parametrize("call", ["nvmlEventSetWait_v2", "nvmlEventSetCreate"])
def test_events_that_fail_are_told_once_asked_for_less_and_less_often_and_heard_again(
    machine: Machine, call: str
) -> None:
    pynvml.nvmlInit()
    machine.fail(call, pynvml.NVML_ERROR_GPU_IS_LOST)
    with capture_logs() as lines, closing(XidWatch(pause_s=0.05, calm_s=0.3)) as watch:
        tell(watch)
        wait_until(lambda: bool(lines), "the failure to be told")
        machine.raise_xid(1, ECC)
        wait_until(lambda: machine.state.waits >= 3 or call == "nvmlEventSetCreate", "some tries")
        assert machine.state.waits < 20
        machine.mend()
        wait_until(lambda: watch.newest(SECOND) == Xid(ECC), "the error")
        wait_until(lambda: lines[-1]["event"] == "xid_events_again", "the end of it to be told")
    assert [(line["event"], line.get("error")) for line in lines] == [
        ("xid_events_failed", "GPU is lost"), ("gpu_xid", None), ("xid_events_again", None),
    ]  # fmt: skip


def test_a_gpu_without_events_takes_none_from_the_others(machine: Machine, watch: XidWatch) -> None:
    machine.fail("nvmlDeviceRegisterEvents", pynvml.NVML_ERROR_NOT_SUPPORTED, gpu=0)
    with capture_logs() as lines:
        watch.renew()
        for _ in range(3):
            tell(watch)
        machine.raise_xid(1, ECC)
        wait_until(lambda: watch.newest(SECOND) == Xid(ECC), "the error of the other")
        machine.raise_xid(0, ECC)
        machine.mend()
        tell(watch)
        wait_until(lambda: watch.newest(FIRST) == Xid(ECC), "the first one's, which has events now")
    told = [(line["gpu"], line["error"]) for line in lines if line["event"] == "xid_events_unavailable"]
    assert told == [(FIRST, "Not Supported")]
