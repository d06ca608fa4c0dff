"""What is believed of what a node tells of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodes.protocol.messages import MOST_LISTENERS, GpuInfo, Inventory, Listener
from portal.common.told import GPUS, MOST
from portal.hardware.inventories import ROOT, STORAGES, inventory_believed, ports_fit, too_many

ONE, TWO, THREE = (GpuInfo(uuid=f"GPU-{name}", index=i, model="A100", memory_mb=80_000) for i, name in enumerate("abc"))
FOUND = Inventory(
    hostname="gpu01", cpu_milli=32_000, memory_mb=128_000, gpus=(ONE, TWO, THREE), simulated=False, address="10.0.0.1",
    interface="eth0", runtime="docker",
)  # fmt: skip


def sick(gpu: GpuInfo, **changes: Any) -> GpuInfo:
    return replace(gpu, healthy=False, fault="lost", **changes)


def test_what_can_be_is_believed_as_it_is() -> None:
    assert inventory_believed(FOUND) == FOUND


NUMBERED: dict[str, tuple[tuple[GpuInfo, ...], list[int]]] = {
    "of two the healthy one has the number": ((ONE, sick(TWO), replace(THREE, index=1)), [0, 2, 1]),
    "of two alike the first": ((ONE, replace(TWO, index=0), THREE), [0, 1, 2]),
    "of two sick ones too": ((sick(ONE), sick(TWO, index=0)), [0, 1]),
    "one below none": ((replace(ONE, index=-1), TWO), [0, 1]),
    "one beyond all": ((ONE, replace(TWO, index=1 << 40)), [0, 1]),
    "all the same": ((ONE, replace(TWO, index=0), replace(THREE, index=0)), [0, 1, 2]),
    "numbers with gaps stay": ((ONE, replace(TWO, index=7)), [0, 7]),
    "one card twice is one": ((ONE, replace(ONE, index=1), TWO), [0, 1]),
}


@pytest.mark.parametrize("case", NUMBERED)
def test_each_gpu_has_a_number_of_its_own(case: str) -> None:
    told, numbers = NUMBERED[case]
    assert [gpu.index for gpu in inventory_believed(replace(FOUND, gpus=told)).gpus] == numbers


@pytest.mark.parametrize(("told", "believed"), [(-1, 0), (0, 0), (MOST, MOST), (1 << 70, MOST)])
def test_amounts_are_what_fits(told: int, believed: int) -> None:
    found = inventory_believed(
        replace(FOUND, cpu_milli=told, memory_mb=told, disk_total_mb=told, gpus=(replace(ONE, memory_mb=told),))
    )
    assert {found.cpu_milli, found.memory_mb, found.disk_total_mb, found.gpus[0].memory_mb} == {believed}


@pytest.mark.parametrize(
    ("first", "last", "fit"),
    [(1, 65535, True), (3000, 3000, True), (30000, 29999, False), (0, 9, False), (9, 65536, False), (-5, -1, False)],
)
def test_ports_are_a_range_of_ports_or_the_usual_one(first: int, last: int, fit: bool) -> None:
    told = replace(FOUND, port_first=first, port_last=last)
    believed = inventory_believed(told)
    assert ports_fit(told) is fit
    assert (believed.port_first, believed.port_last) == ((first, last) if fit else (FOUND.port_first, FOUND.port_last))


@pytest.mark.parametrize(
    ("told", "believed"),
    [
        ("10.0.0.7", "10.0.0.7"), ("gpu07.example.org", "gpu07.example.org"), ("FD00::7", "fd00::7"), ("", ""),
        ("10.0.0.7\nProxyCommand x", ""), ("-oProxyCommand=x", ""), ("$(reboot)", ""), ("a" * 65, ""),
    ],
)  # fmt: skip
def test_an_address_is_a_name_or_an_address_and_nothing_else(told: str, believed: str) -> None:
    assert inventory_believed(replace(FOUND, address=told)).address == believed


def test_so_many_gpus_and_storages_are_taken_as_a_server_may_have() -> None:
    roots = tuple(f"/mnt/{number}" for number in range(100_000))
    gpus = tuple(replace(ONE, uuid=f"GPU-{number}", index=number) for number in range(100))
    told = replace(FOUND, gpus=gpus, storages=("/" + "x" * ROOT, *roots), storage_faults=dict.fromkeys(roots, "away"))
    believed = inventory_believed(told)
    assert [gpu.index for gpu in believed.gpus] == [*range(GPUS)]
    assert believed.storages == roots[: STORAGES - 1]
    assert list(believed.storage_faults) == [*roots[:STORAGES]]
    assert (too_many(believed), len(too_many(told))) == ([], 3)


def test_of_what_answers_there_known_kinds_where_tasks_reach_them_are_taken_and_so_many() -> None:
    good = (Listener("redis", "127.0.0.1", 6379), Listener("docker", "::", 2375), Listener("etcd", "::ffff:7f00:1", 1))
    bad = (
        Listener("<b>", "127.0.0.1", 1), Listener("redis", "10.0.0.1", 1), Listener("redis", "127.0.0.1", 0),
        Listener("redis", "127.0.0.1", 65536), Listener("redis", "no address", 1), Listener("redis", "1" * 1000, 1),
    )  # fmt: skip
    assert inventory_believed(replace(FOUND, listeners=(*bad, *good, good[0]))).listeners == good
    many = tuple(Listener("redis", "127.0.0.1", port) for port in range(1, 1000))
    assert inventory_believed(replace(FOUND, listeners=many)).listeners == many[:MOST_LISTENERS]
