"""Declared GPUs behave as real ones would: by node, by declaration, by who occupies them."""

from __future__ import annotations

import pytest

from nodes.agent.hardware.gpus.base import GpusUnavailable
from nodes.agent.hardware.gpus.choice import backend_from
from nodes.agent.hardware.gpus.simulated import SimulatedBackend


def test_a_declaration_gives_that_many_gpus_of_that_kind() -> None:
    gpus = SimulatedBackend("2xA100-80GB, 1xT4-16GB", node="gpu07", held=dict).inventory()

    assert [(gpu.model, gpu.memory_mb) for gpu in gpus] == [
        ("A100-80GB", 81920),
        ("A100-80GB", 81920),
        ("T4-16GB", 16384),
    ]
    assert [gpu.index for gpu in gpus] == [0, 1, 2]


def test_uuids_belong_to_the_node_and_outlive_a_restart() -> None:
    def uuids(node: str) -> set[str]:
        return {gpu.uuid for gpu in SimulatedBackend("4xA100-80GB", node=node, held=dict).inventory()}

    assert uuids("gpu07") == uuids("gpu07")
    assert not uuids("gpu07") & uuids("gpu08")


@pytest.mark.parametrize(
    "text", ["simulated:", "simulated:A100", "simulated:0xA100", "simulated:65xA100", "simulated:4x", "cuda", ""]
)
def test_what_declares_no_gpus_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(GpusUnavailable) as refused:
        backend_from(text, node="gpu07", held=dict)
    assert "simulated:4xA100-80GB" in str(refused.value) or "4xA100-80GB" in str(refused.value)


def test_a_gpu_is_busy_while_an_attempt_runs_on_it() -> None:
    held: dict[str, str] = {}
    backend = SimulatedBackend("2xA100-80GB", node="gpu07", held=lambda: held, now=lambda: 1000.0)
    first = backend.inventory()[0].uuid
    held[first] = "a1"
    busy, idle = backend.sample(lambda pid: None)
    held.clear()
    after, _ = backend.sample(lambda pid: None)

    assert busy.utilisation is not None
    assert busy.utilisation >= 55
    assert [(one.attempt, one.memory_mb) for one in busy.processes] == [("a1", busy.memory_used_mb)]
    assert (idle.utilisation, idle.memory_used_mb, idle.processes) == (0, 0, ())
    assert (after.utilisation, after.processes) == (0, ())


@pytest.mark.parametrize(("model", "counts"), [("H100-80GB", True), ("GB200-186GB", True), ("A100-80GB", False)])
def test_those_from_hopper_on_count_their_multiprocessors_at_work(model: str, counts: bool) -> None:
    (reading,) = SimulatedBackend(f"1x{model}", node="gpu07", held=dict).sample(lambda pid: None)
    assert (reading.sm_active == 0, reading.dram_active == 0) == (counts, counts)


def test_readings_are_the_same_for_the_same_moment_and_change_with_time() -> None:
    def reading(now: float) -> int | None:
        uuid = SimulatedBackend("1xA100-80GB", node="gpu07", held=dict).inventory()[0].uuid
        backend = SimulatedBackend("1xA100-80GB", node="gpu07", held=lambda: {uuid: "a1"}, now=lambda: now)
        return backend.sample(lambda pid: None)[0].utilisation

    assert reading(1000) == reading(1004)
    assert len({reading(1000 + 5 * step) for step in range(20)}) > 5
