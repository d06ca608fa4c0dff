"""The double of CUDA's checkpoint calls goes through the states that NVIDIA documents, and through no other."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from tests.support.run.facts import DATA

ILLEGAL_STATE, NOT_SUPPORTED = 401, 801
RUNNING, LOCKED, CHECKPOINTED = range(3)
PID = 4711


@pytest.fixture
def cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ctypes.CDLL:
    """The library, with one process that runs."""
    library = tmp_path / "libcuda.so.1"
    source = DATA / "doubles" / "cuda.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-O1", "-o", library, source], check=True)
    monkeypatch.setenv("FAKE_CUDA_DIR", str(tmp_path))
    (tmp_path / str(PID)).write_text(str(RUNNING))
    return ctypes.CDLL(str(library))


def state(cuda: ctypes.CDLL) -> int:
    found = ctypes.c_int()
    assert cuda.cuCheckpointProcessGetState(PID, ctypes.byref(found)) == 0
    return found.value


def test_a_process_is_locked_checkpointed_restored_and_unlocked_in_this_order_alone(cuda: ctypes.CDLL) -> None:
    calls = ("Lock", "Checkpoint", "Restore", "Unlock")
    for call, then in zip(calls, (LOCKED, CHECKPOINTED, LOCKED, RUNNING), strict=True):
        if call != "Lock":
            assert cuda.cuCheckpointProcessLock(PID, None) == ILLEGAL_STATE
        assert getattr(cuda, f"cuCheckpointProcess{call}")(PID, None) == 0
        assert state(cuda) == then


def test_a_call_fails_as_it_is_told(cuda: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CUDA_FAIL", f"checkpoint:{NOT_SUPPORTED}")
    assert cuda.cuCheckpointProcessLock(PID, None) == 0
    assert cuda.cuCheckpointProcessCheckpoint(PID, None) == NOT_SUPPORTED
    assert state(cuda) == LOCKED
