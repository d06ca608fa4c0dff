"""`make gpu-check` on a made-up GPU: it passes where all is well, finds what is wrong, and ends whatever happens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gpu_check import child
from tests.gpu_check.__main__ import DRIVER, WHOLE_S, Refused, chosen, of_phase, verdict
from tests.gpu_check.bench import ROOT
from tests.gpu_check.checks import CHECKS, LOOK, PHASES
from tests.gpu_check.child import Outcome
from tests.gpu_check.switching import fit
from tests.support.gpu.machine import CRASHES, DAMAGES, HANGS, Machine

MIB = 1 << 20
CHECKPOINT, LOCK, RESTORE = (f"cuCheckpointProcess{call}" for call in ("Checkpoint", "Lock", "Restore"))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """With one GPU that is soon filled."""
    made = Machine(tmp_path / "gpus", gpus=1)
    gpu = made.gpu(0)
    gpu.mem_total, gpu.mem_reserved, gpu.context_bytes = 192 * MIB, 8 * MIB, 16 * MIB
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    return made


def uuid(machine: Machine) -> str:
    return str(machine.gpu(0).uuid.decode())


def command(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.gpu_check", "--out", str(folder), "--torch-python", sys.executable],
        cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.root
def test_all_phases_pass_on_a_healthy_gpu_and_their_figures_are_kept(machine: Machine, tmp_path: Path) -> None:
    ran = command(tmp_path / "out")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.startswith("GPU check: ")
    found = {one["check"]: one for one in map(json.loads, (tmp_path / "out/results.jsonl").open())}
    here = {name: one["text"] for name, one in found.items() if one["result"] == "passed"}
    assert here.keys() == CHECKS.keys() - {"A-torch", "F-shared"}, "neither PyTorch nor CUDA IPC is there"
    assert found["facts"]["figures"]["agent_reads"]["memory_mb"] == 192
    assert found["A"]["figures"].keys() >= {"held_mib", "out_s", "in_s", "grew_mib"}
    assert len({size for size, _, _ in found["B"]["figures"]["gb_out_s_in_s"]}) == 4
    assert "600 (CUDA_ERROR_NOT_READY)" in here["F-kernel"]
    assert "801 (CUDA_ERROR_NOT_SUPPORTED), unlock 0" in here["F-managed"]
    assert "2 (CUDA_ERROR_OUT_OF_MEMORY); with room again restore answered 304" in here["F-full"]
    summary = (tmp_path / "out/summary.txt").read_text()
    assert summary.strip() in ran.stdout
    assert [line for line in summary.splitlines() if line[0] != " "] == [
        f"{phase:6}passed    {title}" for phase, title in PHASES.items()
    ]


def stays(machine: Machine) -> None:
    machine.gpu(0).stays_bytes = 80 * MIB


@pytest.mark.root
@pytest.mark.parametrize(
    ("check", "wrong", "found"),
    [
        ("facts", lambda machine: machine.fail("nvmlDeviceGetMigMode", 999), "nvmlDeviceGetMigMode"),
        ("A", lambda machine: machine.fail(RESTORE, DAMAGES), "the losses differ from step"),
        ("B", stays, "the GPU still holds 80 MiB of the process"),
        ("B", lambda machine: machine.fail(CHECKPOINT, 999), "checkpoint answered 999 (CUDA_ERROR_UNKNOWN)"),
        ("F-kernel", lambda machine: machine.fail(LOCK, 801), "lock answered 801 (CUDA_ERROR_NOT_SUPPORTED), not 600"),
        ("F-full", lambda machine: machine.fail(RESTORE, 999), "restore into a full GPU answered 999"),
        ("F-gone", lambda machine: machine.fail(LOCK, CRASHES), "the process that called lock died"),
        ("facts", lambda machine: machine.fail("nvmlDeviceGetName", CRASHES), "its process ended with SIGSEGV"),
    ],
)
def test_each_phase_finds_what_is_wrong(
    machine: Machine, tmp_path: Path, check: str, wrong: Callable[[Machine], None], found: str
) -> None:
    wrong(machine)
    outcome = child.check(check, tmp_path, uuid(machine), sys.executable, WHOLE_S)
    assert (outcome.result, found in outcome.text) == ("failed", True), outcome.text
    assert verdict([outcome]) == 1


@pytest.mark.root
def test_a_check_that_hangs_is_killed_with_its_programs_and_what_it_measured_is_kept(
    machine: Machine, tmp_path: Path
) -> None:
    machine.fail("nvmlDeviceGetComputeRunningProcesses_v3", HANGS)
    outcome = child.check("A", tmp_path, uuid(machine), "", 8)
    assert (outcome.result, outcome.text, outcome.stuck) == ("failed", "killed: it was not done after 8 s", False)
    assert outcome.figures["held_mib"] == 45
    machine.mend()
    assert child.look(tmp_path).figures["gpus"][0]["used_mib"] == 0


@pytest.mark.root
def test_a_call_without_an_answer_is_told_by_its_name(machine: Machine, tmp_path: Path) -> None:
    machine.fail(RESTORE, HANGS, times=1)
    outcome = child.check("F-running", tmp_path, uuid(machine), "", 6)
    assert (outcome.result, outcome.text) == ("failed", "restore gave no answer")


def test_without_a_gpu_or_with_one_in_use_nothing_is_begun(machine: Machine, tmp_path: Path) -> None:
    machine.run_process(0, 4711, 5000)
    used = command(tmp_path / "used")
    machine.no_driver()
    none = command(tmp_path / "none")
    assert (used.returncode, none.returncode) == (2, 2)
    assert used.stdout.splitlines()[-1].startswith("Nothing was checked: GPU 0 (NVIDIA H200, GPU-fa4e0000-")
    assert "is in use by process 4711" in used.stdout
    assert "Nothing was checked: there is no NVIDIA GPU here, or its driver does not answer" in none.stdout
    assert not list(tmp_path.glob("*/results.jsonl"))


def looked(*used_mib: int, **machine: Any) -> Outcome:
    gpus = [
        {"index": index, "uuid": f"GPU-{index}", "name": "H200", "used_mib": used, "pids": [], "mig": False}
        for index, used in enumerate(used_mib)
    ]
    told = {"gpus": gpus, "driver": f"{DRIVER}.1", "cuda": 13000, "root": True, **machine}
    return Outcome("look", "passed", "", 0, told)


@pytest.mark.parametrize(
    ("look", "named", "uuid", "unable"),
    [
        (looked(0, 0), "", "GPU-0", ""),
        (looked(9000, 0), "1", "GPU-1", ""),
        (looked(9000, 0), "GPU-1", "GPU-1", ""),
        (looked(0, root=False), "", "GPU-0", "parking a process needs root"),
        (looked(0, driver="570.86.15"), "", "GPU-0", "parking a process needs driver 580; here is 570.86.15"),
    ],
)
def test_the_gpu_is_the_named_one_and_what_cannot_be_done_on_it_is_told(
    look: Outcome, named: str, uuid: str, unable: str
) -> None:
    assert chosen(look, named) == (uuid, unable)


@pytest.mark.parametrize(
    ("look", "named", "why"),
    [
        (looked(0, 9000), "", r"GPU 1 .* is in use \(9,000 MiB of its memory\)\. GPU 0 .* make gpu-check GPU=0"),
        (looked(0, 9000), "1", "GPU 1 .* is in use"),
        (looked(0), "3", "there is no GPU '3'; there are GPU 0"),
        (looked(), "", "has no GPU"),
    ],
)
def test_a_gpu_in_use_or_unknown_is_refused(look: Outcome, named: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        chosen(look, named)


def test_what_could_not_be_checked_is_no_success_unless_it_need_not_be_there() -> None:
    passed = [Outcome(name, "passed", "", 0, {}) for name in CHECKS if name not in ("B", "F-shared")]
    shared = Outcome("F-shared", "not here", "", 0, {})
    whole = [*passed, shared, Outcome("B", "passed", "", 0, {})]
    assert (verdict(whole), of_phase(whole, "F")) == (0, "passed")
    assert verdict([*passed, shared, Outcome("B", "not here", "", 0, {})]) == 2


def test_the_line_through_the_measured_times_gives_a_constant_and_a_rate() -> None:
    points = [(size, 0.5 + 0.6 * size, 0.4 + 0.23 * size) for size in (1.0, 8.0, 20.0, 64.0)]
    assert (fit(points, 1), fit(points, 2)) == ((0.5, 0.6), (0.4, 0.23))


def test_all_deadlines_together_are_less_than_ten_minutes() -> None:
    assert LOOK.limit_s + WHOLE_S <= 600
    assert sum(check.limit_s for check in CHECKS.values()) <= WHOLE_S
