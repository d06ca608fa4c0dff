"""Values by which storages are known: written where no job can write or read, as few as are needed."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nodes.agent.sessions.folders import FilesFailed
from nodes.agent.sessions.proof_writer import ProofWriter
from nodes.agent.storage.proof import KEPT_S, MOST, Proof, ProofRefused, proof_write
from nodes.protocol.messages import Mount
from nodes.protocol.sessions import PROOFS, ProofRequest, SessionFault

VALUE = "ab" * 32


def proof(root: Path, number: int = 1) -> Proof:
    mount = Mount(storage="data", root=str(root), source=str(root), target="")
    return Proof(mount=mount, roots=(str(root),), name=f"{number:032x}", value=VALUE)


def test_it_is_written_where_nobody_else_reads_or_writes(tmp_path: Path) -> None:
    proof_write(proof(tmp_path))
    file = tmp_path / PROOFS / f"{1:032x}"
    assert file.read_text() == VALUE
    assert [path.stat().st_mode & 0o777 for path in (file.parent, file)] == [0o700, 0o600]


def test_old_values_go_and_there_are_never_many(tmp_path: Path) -> None:
    for number in range(MOST):
        proof_write(proof(tmp_path, number))
    with pytest.raises(ProofRefused, match="try again later"):
        proof_write(proof(tmp_path, MOST))
    for path in (tmp_path / PROOFS).iterdir():
        os.utime(path, (time.time() - KEPT_S - 1,) * 2)
    proof_write(proof(tmp_path, MOST))
    assert [path.name for path in (tmp_path / PROOFS).iterdir()] == [f"{MOST:032x}"]


def test_in_a_folder_that_others_may_write_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / PROOFS).mkdir(mode=0o755)
    with pytest.raises(ProofRefused, match="is not the agent's own folder"):
        proof_write(proof(tmp_path))
    assert list((tmp_path / PROOFS).iterdir()) == []


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    storage, elsewhere = tmp_path / "storage", tmp_path / "elsewhere"
    storage.mkdir()
    elsewhere.mkdir(mode=0o700)
    (storage / PROOFS).symlink_to(elsewhere)
    with pytest.raises(ProofRefused, match="Nothing can be written"):
        proof_write(proof(storage))
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("changes", [{"name": "../x"}, {"name": ""}, {"value": "x" * 64}, {"roots": ("/srv",)}])
def test_what_the_portal_may_not_ask_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(ProofRefused):
        proof_write(replace(proof(tmp_path), **changes))  # type: ignore[arg-type]
    assert not (tmp_path / PROOFS).exists()


def test_the_door_has_a_process_write_it_and_tells_why_not(tmp_path: Path) -> None:
    made = ProofWriter(roots=(str(tmp_path),))
    asked = proof(tmp_path)
    request = ProofRequest(mount=asked.mount, name=asked.name, value=asked.value)
    made.write(request)
    assert (tmp_path / PROOFS / asked.name).read_text() == VALUE
    with pytest.raises(FilesFailed) as failed:
        made.write(request)
    assert (failed.value.fault, "File exists" in failed.value.message) == (SessionFault.UNFIT, True)
