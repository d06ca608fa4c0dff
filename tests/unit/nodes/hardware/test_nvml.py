"""Real NVML calls over a made-up machine: what is read, and what becomes of a GPU that is sick or lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest

from nodes.agent.check.finding import Finding, Verdict
from nodes.agent.check.machine import driver_finding
from nodes.agent.config.options import options_load
from nodes.agent.hardware.gpus.base import GpusUnavailable
from nodes.agent.hardware.gpus.choice import backend_from, nvidia_cards
from nodes.agent.hardware.gpus.groups import groups_of
from nodes.agent.hardware.gpus.health import Signs, Xid, fault_of
from nodes.agent.hardware.gpus.nvml import NvmlBackend
from nodes.protocol.envelope import PortalKey
from nodes.protocol.messages import GpuProcess
from tests.support.gpu.machine import Machine
from tests.support.run.waiting import wait_until

FIRST, SECOND = "GPU-fa4e0000-0000-4000-8000-000000000000", "GPU-fa4e0001-0000-4000-8000-000000000001"


@pytest.fixture
def backend(machine: Machine, tmp_path: Path) -> Iterator[NvmlBackend]:
    (tmp_path / "0000:1b:00.0").mkdir()
    (tmp_path / "0000:1b:00.0" / "numa_node").write_text("1\n")
    backend = NvmlBackend(tmp_path)
    yield backend
    backend.close()


def test_the_inventory_tells_model_memory_place_and_driver(backend: NvmlBackend) -> None:
    first, second = backend.inventory()

    assert (first.uuid, second.uuid) == (FIRST, SECOND)
    assert (first.model, first.memory_mb, first.pci, first.numa) == ("NVIDIA H200", 143771, "00000000:1B:00.0", 1)
    assert (first.driver, first.cuda) == ("580.159.04", "13.0")
    assert second.numa is None


def test_a_reading_tells_load_memory_heat_power_and_whose_processes(backend: NvmlBackend, machine: Machine) -> None:
    gpu = machine.gpu(0)
    gpu.gpu_util, gpu.mem_used, gpu.temp, gpu.power, gpu.clock_reasons = 87, 5000 << 20, 66, 512_300, 0x24
    machine.run_process(0, 4711, 4000)
    machine.run_process(0, 4712, 900)

    first, second = backend.sample({4711: "a1"}.get)

    assert (first.utilisation, first.memory_used_mb, first.temperature_c, first.power_w) == (87, 5000, 66, 512)
    assert first.throttle == ("power cap", "heat")
    assert first.processes == (
        GpuProcess(pid=4711, memory_mb=4000, attempt="a1", utilisation=0),
        GpuProcess(pid=4712, memory_mb=900, attempt=None, utilisation=0),
    )
    assert second.processes == ()
    assert first.sm_clock_mhz == 1980


def test_what_a_driver_has_no_call_for_is_unknown(backend: NvmlBackend, machine: Machine) -> None:
    machine.fail("nvmlDeviceGetClockInfo", pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)

    assert backend.sample(lambda pid: None)[0].sm_clock_mhz is None


def test_the_holders_of_a_gpu_are_its_processes(backend: NvmlBackend, machine: Machine) -> None:
    machine.run_process(1, 99, 10)

    assert backend.holders(FIRST) == ()
    assert backend.holders(SECOND) == (99,)


@pytest.mark.parametrize(
    ("make_sick", "fault"),
    [
        (lambda gpu: setattr(gpu, "recovery", 1), "the driver asks for a reset of this GPU"),
        (lambda gpu: gpu.remap.__setitem__(3, 1), "a memory row could not be remapped: this GPU is worn out"),
        (lambda gpu: gpu.remap.__setitem__(2, 1), "a memory row waits to be remapped: this GPU needs a reset"),
        (lambda gpu: setattr(gpu, "ecc_uncorr", 3), "3 uncorrectable memory errors since the driver was loaded"),
        (lambda gpu: setattr(gpu, "lost", 1), "the GPU is lost: it no longer answers the driver"),
        (
            lambda gpu: setattr(gpu, "mig", 1),
            "it is in MIG mode, which Berth does not share yet: nvidia-smi -i 0 -mig 0 switches it off",
        ),
    ],
)
def test_a_sick_gpu_stays_in_the_inventory_with_its_fault(
    backend: NvmlBackend, machine: Machine, make_sick: Callable[[object], None], fault: str
) -> None:
    make_sick(machine.gpu(0))
    first, second = backend.inventory()

    assert (first.uuid, first.healthy, first.fault) == (FIRST, False, fault)
    assert second.healthy


def test_a_lost_gpu_gives_an_empty_reading_and_the_others_go_on(backend: NvmlBackend, machine: Machine) -> None:
    machine.gpu(0).lost = 1
    machine.gpu(1).gpu_util = 50
    first, second = backend.sample(lambda pid: None)

    assert (first.uuid, first.utilisation, first.processes) == (FIRST, None, ())
    assert second.utilisation == 50
    assert backend.holders(FIRST) == ()


def test_a_gpu_that_answers_again_is_healthy_again(backend: NvmlBackend, machine: Machine) -> None:
    machine.gpu(0).lost = 1
    assert not backend.inventory()[0].healthy
    machine.gpu(0).lost = 0

    assert backend.inventory()[0].healthy


def test_a_hardware_xid_marks_its_gpu_and_a_users_xid_does_not(backend: NvmlBackend, machine: Machine) -> None:
    machine.raise_xid(0, 31)  # a memory access of the user's program
    machine.raise_xid(1, 48)  # double bit ECC error

    wait_until(lambda: not backend.inventory()[1].healthy, "the hardware error to be noted")
    first, second = backend.inventory()
    assert second.fault == "hardware error Xid 48"
    assert first.healthy


def test_under_mig_the_load_is_unknown_and_the_rest_is_read(backend: NvmlBackend, machine: Machine) -> None:
    machine.gpu(0).mig = 1
    reading = backend.sample(lambda pid: None)[0]
    assert reading.utilisation is None
    assert reading.power_w == 76


def test_a_gpu_is_well_again_when_mig_mode_is_off(backend: NvmlBackend, machine: Machine) -> None:
    machine.gpu(1).mig = 1
    assert "nvidia-smi -i 1 -mig 0" in backend.inventory()[1].fault
    machine.gpu(1).ecc_uncorr = 2
    assert backend.inventory()[1].fault.startswith("2 uncorrectable memory errors"), "what is worse is told"
    machine.gpu(1).mig = machine.gpu(1).ecc_uncorr = 0
    assert backend.inventory()[1].healthy


def test_without_a_driver_the_reason_is_one_sentence(machine: Machine) -> None:
    machine.no_driver()
    with pytest.raises(GpusUnavailable, match="the NVIDIA driver does not answer: Driver Not Loaded"):
        backend_from("nvml", node="gpu07", held=dict)
    assert backend_from("demo", node="gpu07", held=dict).simulated


def test_the_check_of_a_server_tells_its_driver_and_names_the_gpus_that_are_not_well(machine: Machine) -> None:
    """`berth-node check`; a server with a sick GPU is asked for the container toolkit all the same."""
    told = {"NAME": "gpu07", "REDIS_URL": "redis://127.0.0.1/0", "GPUS": "nvml",
            "PORTAL_PUBLIC_KEY": PortalKey.generate().public}  # fmt: skip
    options = options_load([], {f"BERTH_NODE_{name}": value for name, value in told.items()})
    line, cards = driver_finding(options)
    assert line == Finding("driver", Verdict.OK, "580.159.04, 2 x NVIDIA H200")
    assert cards is not None
    assert len(cards.uuids) == 2
    machine.gpu(1).ecc_uncorr = 3
    line, sick = driver_finding(options)
    assert (line.verdict, line.cure, sick) == (Verdict.WARNING, "Look at nvidia-smi -q.", cards)
    assert line.text == ("580.159.04; not healthy: GPU 1: 3 uncorrectable memory errors since the driver was loaded")
    machine.gpu(0).mig = 1
    assert driver_finding(options)[0].cure == "Look at nvidia-smi -q."
    machine.gpu(1).ecc_uncorr = 0
    line, _ = driver_finding(options)
    assert (line.verdict, "GPU 0: it is in MIG mode" in line.text, "-dci" in line.cure) == (Verdict.WARNING, True, True)
    machine.state.ngpu = 0
    assert driver_finding(options)[0].text == "the driver lists no GPUs"
    machine.no_driver()
    line, none = driver_finding(options)
    assert (line.verdict, none) == (Verdict.FAILED, None)
    assert line.text == "no NVIDIA driver: the NVIDIA driver does not answer: Driver Not Loaded"
    line, none = driver_finding(replace(options, gpus="auto"))
    assert (line.verdict, none) == (Verdict.WARNING if not nvidia_cards() else Verdict.FAILED, None)


def test_auto_takes_the_machines_gpus_where_it_has_some(machine: Machine) -> None:
    backend = backend_from("auto", node="gpu07", held=dict)

    assert not backend.simulated
    assert len(backend.inventory()) == 2
    backend.close()


@pytest.mark.parametrize(
    ("signs", "fault"),
    [
        (Signs(), ""),
        (Signs(recovery=0, remap_pending=False, remap_failed=False, uncorrected=0), ""),
        (Signs(recovery=2, uncorrected=9), "the driver asks for a restart of the node"),
        (Signs(recovery=77), "the driver asks for recovery action 77"),
        (Signs(xid=Xid(79), uncorrected=9), "hardware error Xid 79"),
        (Signs(xid=Xid(79, times=2)), "hardware error Xid 79 (2 in all)"),
    ],
)
def test_the_gravest_sign_is_the_fault(signs: Signs, fault: str) -> None:
    assert fault_of(signs) == fault


@pytest.mark.parametrize(
    ("pairs", "groups"),
    [
        (set(), [0, 1, 2, 3]),
        ({(0, 1), (2, 3)}, [0, 0, 2, 2]),
        ({(0, 3), (1, 3)}, [0, 0, 2, 0]),
        ({(2, 3), (1, 2), (0, 1)}, [0, 0, 0, 0]),
    ],
)
def test_groups_follow_the_chains_of_joined_pairs(pairs: set[tuple[int, int]], groups: list[int]) -> None:
    assert groups_of(4, lambda a, b: (a, b) in pairs) == groups
