"""Whether a server can park, and what it says where it cannot."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from nodes.agent.hardware.gpus.nvml import NvmlBackend
from nodes.agent.hardware.gpus.simulated import SimulatedBackend
from nodes.agent.hardware.gpus.suspension import Suspension
from nodes.protocol.parking import ParkFault
from tests.support.cluster.memory_runtime import MemoryRuntime
from tests.support.cluster.parking_node import ParkingRuntime
from tests.support.gpu.machine import CRASHES, Machine
from tests.support.run.waiting import wait_until

pytestmark = pytest.mark.root


class Hidden(ParkingRuntime):
    """An Engine whose processes are not seen."""

    def sees_processes(self) -> bool:
        return False


@pytest.fixture
def backend(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[NvmlBackend]:
    monkeypatch.setenv("LD_LIBRARY_PATH", machine.env["LD_LIBRARY_PATH"])
    made = NvmlBackend()
    yield made
    made.close()


def said(suspension: Suspension) -> str:
    fault = suspension.fault()
    assert fault is None or fault.code == ParkFault.UNSUPPORTED
    return str(fault.said["says"]).removeprefix("node_park_") if fault else ""


def old_driver(machine: Machine) -> None:
    machine.state.driver = b"575.57.08"


def old_cuda(machine: Machine) -> None:
    machine.state.cuda = 12070


def nothing(machine: Machine) -> None:
    """The machine stays as it is."""


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (nothing, ""),
        (old_driver, "driver"),
        (old_cuda, "calls"),
        (partial(Machine.fail, call="cuInit", code=999), "calls"),
        (partial(Machine.fail, call="cuInit", code=CRASHES), "silent"),
    ],
)
def test_what_the_driver_cannot_do_is_said(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, change: Callable[[Machine], None], says: str
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", machine.env["LD_LIBRARY_PATH"])
    change(machine)
    backend = NvmlBackend()
    assert said(Suspension(backend, ParkingRuntime(), None)) == says
    backend.close()


def test_what_the_server_lacks_is_said(backend: NvmlBackend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runtime = ParkingRuntime()
    assert said(Suspension(backend, runtime, 0)) == "off"
    assert said(Suspension(backend, MemoryRuntime(), None)) == "runtime"
    assert said(Suspension(SimulatedBackend("1xK80-12GB", node="a", held=dict), runtime, None)) == "simulated"
    assert said(Suspension(backend, Hidden(), None)) == "pids"
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert said(Suspension(backend, runtime, None)) == "library"
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert said(Suspension(backend, runtime, None)) == "processor"


def test_a_server_on_which_mps_runs_parks_nothing(backend: NvmlBackend, tmp_path: Path) -> None:
    daemon = tmp_path / "nvidia-cuda-mps-control"
    shutil.copy("/bin/sleep", daemon)
    suspension = Suspension(backend, ParkingRuntime(), None)
    assert said(suspension) == ""
    with subprocess.Popen([daemon, "60"]) as running:
        name = Path(f"/proc/{running.pid}/comm")  # the kernel sets it after Popen has returned
        wait_until(lambda: daemon.name.startswith(name.read_text().strip()), "the daemon's name")
        fault = suspension.fault(fresh=True)
        running.kill()
    assert fault is not None
    assert fault.said == {"says": "node_park_mps"}


def test_its_memory_for_parked_tasks_is_what_no_task_was_promised_and_at_most_half(backend: NvmlBackend) -> None:
    total, runtime = psutil.virtual_memory().total >> 20, ParkingRuntime()
    free = Suspension(backend, runtime, None)
    assert [free.room_mb(promised) for promised in (0, total - 100, total + 1)] == [total // 2, 100, 0]
    assert Suspension(backend, runtime, 600).room_mb(0) == 600
