"""What every GPU backend promises, whatever is below it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from nodes.agent.hardware.gpus.base import GpuBackend
from nodes.agent.hardware.gpus.choice import backend_from
from nodes.protocol.messages import Inventory, decode, encode


@pytest.fixture(
    params=["simulated:2xH200-141GB", "double", pytest.param("nvml", marks=pytest.mark.gpu)],
)
def backend(request: pytest.FixtureRequest) -> Iterator[GpuBackend]:
    text = request.param
    if text == "double":
        request.getfixturevalue("machine")
        text = "nvml"
    backend = backend_from(text, node="gpu07", held=dict)
    yield backend
    backend.close()


def test_every_gpu_has_a_uuid_of_its_own_a_model_and_memory(backend: GpuBackend) -> None:
    gpus = backend.inventory()

    assert gpus
    assert len({gpu.uuid for gpu in gpus}) == len(gpus)
    assert [gpu.index for gpu in gpus] == sorted(gpu.index for gpu in gpus)
    assert all(gpu.uuid.startswith("GPU-") and gpu.model and gpu.memory_mb > 1000 for gpu in gpus)
    assert all(gpu.healthy and not gpu.fault for gpu in gpus)


def test_the_inventory_stays_the_same_while_nothing_happens(backend: GpuBackend) -> None:
    assert backend.inventory() == backend.inventory()


def test_a_reading_names_every_gpu_in_the_inventorys_order(backend: GpuBackend) -> None:
    readings = backend.sample(lambda pid: None)

    assert [one.uuid for one in readings] == [gpu.uuid for gpu in backend.inventory()]


def test_readings_lie_in_their_units_range(backend: GpuBackend) -> None:
    memory = {gpu.uuid: gpu.memory_mb for gpu in backend.inventory()}
    for one in backend.sample(lambda pid: None):
        assert one.utilisation is None or 0 <= one.utilisation <= 100
        assert one.memory_used_mb is None or 0 <= one.memory_used_mb <= memory[one.uuid]
        assert one.temperature_c is None or 5 < one.temperature_c < 110
        assert one.power_w is None or 10 < one.power_w < 2000


def test_an_unknown_gpu_is_held_by_nobody(backend: GpuBackend) -> None:
    assert backend.holders("GPU-00000000-0000-0000-0000-000000000000") == ()


def test_everything_it_says_travels_in_a_report(backend: GpuBackend) -> None:
    inventory = Inventory(
        hostname="gpu07",
        cpu_milli=1000,
        memory_mb=1000,
        gpus=backend.inventory(),
        simulated=backend.simulated,
        address="127.0.0.1",
        interface="lo",
        runtime="docker",
    )

    assert decode(encode(inventory), Inventory) == inventory


def test_it_may_be_closed_twice(backend: GpuBackend) -> None:
    backend.close()
    backend.close()


def test_this_process_holds_no_gpu_until_it_says_so(backend: GpuBackend) -> None:
    assert all(os.getpid() not in backend.holders(gpu.uuid) for gpu in backend.inventory())
