"""What a GPU is busy with is read as the GPU itself counts it, and told by process; where that cannot be had,
utilisation is all there is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from pathlib import Path

import pynvml
import pytest

from nodes.agent.hardware.gpus.activity import METRICS, ActivityWatch
from nodes.agent.hardware.gpus.nvml import NvmlBackend
from nodes.protocol.messages import GpuSample
from tests.support.gpu.machine import Machine
from tests.support.gpu.program import HANDLE, Program

NOTHING = dict.fromkeys(METRICS)


@pytest.fixture
def seconds() -> list[float]:
    """The agent's clock."""
    return [0.0]


@pytest.fixture
def backend(machine: Machine, tmp_path: Path, seconds: list[float]) -> Iterator[NvmlBackend]:
    with closing(NvmlBackend(tmp_path)) as made:
        made._activity = ActivityWatch(lambda: seconds[0])
        yield made


@pytest.fixture
def program(machine: Machine) -> Iterator[Program]:
    """Its kernels have 80 % of the multiprocessors, 40 % of their warps, no tensor unit, 20 % of the bandwidth."""
    made = Program(machine).opened()
    yield made
    made.end()


def active(reading: GpuSample) -> dict[str, int | None]:
    return {name: getattr(reading, name) for name in METRICS}


def looked(backend: NvmlBackend, seconds: list[float], index: int = 0) -> GpuSample:
    """Five seconds after the look before."""
    seconds[0] += 5
    return backend.sample(lambda pid: "a1")[index]


def test_every_reading_but_the_first_tells_what_was_done_since_the_one_before(
    machine: Machine, backend: NvmlBackend, program: Program, seconds: list[float]
) -> None:
    assert active(looked(backend, seconds)) == NOTHING
    program.spin(3)
    machine.advance(5)
    assert tuple(active(looked(backend, seconds)).values()) == (48, 24, 0, 12)
    machine.advance(5)
    assert active(looked(backend, seconds)) == dict.fromkeys(METRICS, 0)
    assert active(backend.sample(lambda pid: None)[1]) == dict.fromkeys(METRICS, 0)


def test_utilisation_tells_full_where_the_multiprocessors_have_little_to_do(
    machine: Machine, backend: NvmlBackend, program: Program, seconds: list[float]
) -> None:
    """A hang: a kernel that waits in one multiprocessor."""
    module = program("cuModuleLoadData", HANDLE, "gpu-machine kernels\nstuck spin 0 1 1 0 0\n")
    program.kernels["stuck"] = program("cuModuleGetFunction", HANDLE, module, "stuck")
    looked(backend, seconds)
    program.launch("stuck", [3600 * 10**9])
    machine.advance(5)
    reading = looked(backend, seconds)
    assert (reading.utilisation, reading.sm_active) == (100, 1)


def test_two_looks_at_once_tell_the_same(
    machine: Machine, backend: NvmlBackend, program: Program, seconds: list[float]
) -> None:
    looked(backend, seconds)
    program.spin(5)
    machine.advance(5)
    first = looked(backend, seconds)
    seconds[0] += 0.05
    assert active(backend.sample(lambda pid: None)[0]) == active(first) != NOTHING


def test_the_part_of_each_process_is_told_and_none_for_one_that_rests(
    machine: Machine, backend: NvmlBackend, program: Program, seconds: list[float]
) -> None:
    other = Program(machine).opened()
    for kernel in (0.3, 0.2):
        program.spin(kernel)
    other.spin(0.25)
    machine.advance(1)
    told = {one.pid: one.utilisation for one in looked(backend, seconds).processes}
    assert told == {program.pid: 50, other.pid: 25}
    machine.advance(1)
    told = {one.pid: one.utilisation for one in looked(backend, seconds).processes}
    assert told == {program.pid: 0, other.pid: 0}
    other.end()


def test_processes_that_end_while_they_are_read_cost_no_reading(
    machine: Machine, backend: NvmlBackend, seconds: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pynvml, "nvmlDeviceGetProcessUtilization", lambda handle, since: [])
    assert looked(backend, seconds).power_w == 76


@pytest.mark.parametrize("older", ["the card", "the driver"])
def test_before_hopper_utilisation_is_all_there_is(
    machine: Machine, backend: NvmlBackend, program: Program, seconds: list[float], older: str
) -> None:
    if older == "the card":
        machine.gpu(0).gpm = 0
    else:
        machine.fail("nvmlGpmQueryDeviceSupport", pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        machine.fail("nvmlDeviceGetProcessUtilization", pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    looked(backend, seconds)
    program.spin(5)
    machine.advance(5)
    reading = looked(backend, seconds)
    assert (active(reading), reading.utilisation) == (NOTHING, 100)
    assert [one.utilisation for one in reading.processes] == [100 if older == "the card" else None]


@pytest.mark.parametrize("call", ["nvmlGpmSampleGet", "nvmlGpmMetricsGet"])
def test_counters_that_fail_are_tried_again_and_cost_no_other_reading(
    machine: Machine, backend: NvmlBackend, program: Program, seconds: list[float], call: str
) -> None:
    looked(backend, seconds)
    machine.advance(5)
    machine.fail(call, pynvml.NVML_ERROR_UNKNOWN)
    reading = looked(backend, seconds)
    assert (active(reading), reading.power_w) == (NOTHING, 76)
    machine.mend()
    machine.advance(5)
    looked(backend, seconds)
    machine.advance(5)
    assert active(looked(backend, seconds)) == dict.fromkeys(METRICS, 0)


@pytest.mark.parametrize("away", ["the card", "the driver"])
def test_a_lost_gpu_that_returns_and_a_driver_loaded_anew_are_looked_at_again(
    machine: Machine, backend: NvmlBackend, seconds: list[float], away: str
) -> None:
    looked(backend, seconds)
    machine.gpu(0).lost, machine.state.missing = away == "the card", away == "the driver"
    assert active(looked(backend, seconds)) == NOTHING
    machine.gpu(0).lost = 0
    if away == "the driver":
        machine.load_driver()
    for _ in range(2):
        machine.advance(5)
        reading = looked(backend, seconds)
    assert active(reading) == dict.fromkeys(METRICS, 0)


def test_what_it_reads_are_fields_of_the_message() -> None:
    assert METRICS.keys() <= {field.name for field in fields(GpuSample)}
