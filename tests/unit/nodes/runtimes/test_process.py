"""The process runtime: its tasks outlive whoever started them, and nothing of them outlives their end."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from signal import SIGKILL, SIGTERM

import psutil
import pytest

from nodes.agent.logs.base import Position
from nodes.agent.logs.sidecar import position_after
from nodes.agent.runtimes.base import AttemptFailed, Image, RuntimeContainer, Status
from nodes.agent.runtimes.process import wrapper
from nodes.agent.runtimes.process.runtime import ProcessRuntime, on_node
from nodes.protocol.messages import Limits, encode, spec_digest
from nodes.protocol.states import Cause
from tests.support.cluster.portal_side import COUNT, lines, spec_of
from tests.support.run.waiting import wait_until
from tests.unit.nodes.runtimes.conftest import runtime_at

IMAGE = Image(digest="process", reference="busybox:latest")


def started(runtime: ProcessRuntime, script: str, **changes: object) -> RuntimeContainer:
    spec = spec_of(script, **changes)
    runtime.create(spec, spec_digest(encode(spec)), IMAGE)
    return runtime.start(spec)


def ended(runtime: ProcessRuntime, attempt: str) -> RuntimeContainer:
    def look() -> RuntimeContainer | None:
        found = runtime.find(attempt)
        return found if found is not None and found.status is Status.ENDED else None

    return wait_until(look, "the task's end", every_s=0.01)


def output(runtime: ProcessRuntime, attempt: str) -> str:
    return b"".join(record.payload for record in runtime.source(attempt).frames(Position())).decode()


def test_a_task_is_found_by_a_runtime_that_did_not_start_it(runtime: ProcessRuntime, tmp_path: Path) -> None:
    found = started(runtime, "sleep 0.3; exit 6", gpus=("GPU-1",))
    heir = runtime_at(tmp_path)
    assert heir.found()[found.attempt].status is Status.RUNNING
    assert heir.found()[found.attempt].gpus == ("GPU-1",)
    ending = ended(heir, found.attempt).ending
    assert ending is not None
    assert ending.code == 6


def test_a_setuid_program_gives_a_task_nothing(runtime: ProcessRuntime) -> None:
    found = started(runtime, "grep NoNewPrivs /proc/self/status")
    ended(runtime, found.attempt)
    assert output(runtime, found.attempt).split() == ["NoNewPrivs:", "1"]


def test_a_prepared_task_runs_only_when_it_is_started_and_only_once(runtime: ProcessRuntime, tmp_path: Path) -> None:
    spec = spec_of("echo run")
    assert runtime.create(spec, "h", IMAGE).status is Status.CREATED
    assert not psutil.pid_exists(_pid(tmp_path, spec.attempt) or 2**30)
    runtime.start(spec)
    runtime_at(tmp_path).start(spec)
    ended(runtime, spec.attempt)
    runtime.start(spec)
    assert output(runtime, spec.attempt) == "run\n"


def test_another_nodes_tasks_are_not_seen(runtime: ProcessRuntime, tmp_path: Path) -> None:
    found = started(runtime, "sleep 600")
    assert runtime_at(tmp_path, node="gpu02").find(found.attempt) is None


def test_a_task_that_went_into_a_session_of_its_own_ends_with_the_task(runtime: ProcessRuntime, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    script = f"setsid sh -c 'trap \"\" TERM; echo $$ > {mark}.new; mv {mark}.new {mark}; sleep 600' &\nsleep 0.5"
    tmp_path.chmod(0o777)
    found = started(runtime, script)
    wait_until(mark.exists, "the daemon")
    ended(runtime, found.attempt)
    wait_until(lambda: not psutil.pid_exists(int(mark.read_text())), "the daemon's end")


def test_what_outlives_a_task_whose_wrapper_was_killed_is_known_as_its_own(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    mark = tmp_path / "pid"
    tmp_path.chmod(0o777)
    found = started(runtime, f"setsid sh -c 'echo $$ > {mark}.new; mv {mark}.new {mark}; exec sleep 600' &\nwait")
    wait_until(mark.exists, "the daemon")
    left = psutil.Process(int(mark.read_text()))
    assert runtime.belongs(left.pid, found.container)
    os.kill(_pid(tmp_path, found.attempt) or 0, SIGKILL)
    ended(runtime, found.attempt)
    assert (runtime.owner(left.pid), runtime.belongs(left.pid, found.container)) == (None, True)
    assert not runtime.belongs(os.getpid(), found.container)
    left.kill()
    wait_until(lambda: not runtime.belongs(left.pid, found.container), "its end")


def test_sigkill_ends_the_whole_tree(runtime: ProcessRuntime) -> None:
    found = started(runtime, "trap '' TERM; echo ready; sleep 600 & sleep 600")
    assert next(runtime.source(found.attempt).frames(Position())).payload == b"ready\n"
    runtime.signal(found.attempt, SIGTERM)
    runtime.signal(found.attempt, SIGKILL)
    ending = ended(runtime, found.attempt).ending
    assert ending is not None
    assert ending.code == 137


def test_a_wrapper_that_was_killed_takes_its_task_along_and_nobody_saw_the_end(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    found = started(runtime, "exec sleep 600")
    child = json.loads((tmp_path / "tasks" / found.attempt / "child.json").read_text())["pid"]
    os.kill(_pid(tmp_path, found.attempt) or 0, SIGKILL)
    ending = ended(runtime, found.attempt).ending
    assert ending is not None
    assert ending.code is None
    wait_until(lambda: not _lives(child), "the task's end")


def test_a_frozen_task_stands_still_until_it_is_thawed(runtime: ProcessRuntime) -> None:
    found = started(runtime, "sleep 0.2; echo done")
    source = runtime.source(found.attempt)
    source.freeze()
    wait_until(lambda: _states(runtime, found.attempt) == {psutil.STATUS_STOPPED}, "all its processes to stand still")
    source.thaw()
    ended(runtime, found.attempt)
    assert output(runtime, found.attempt) == "done\n"


def test_it_runs_as_the_jobs_user_and_never_as_root(runtime: ProcessRuntime) -> None:
    if os.geteuid() == 0:
        assert _id_of(runtime, uid=5000, gid=5001) == "5000 5001"
        assert _id_of(runtime, uid=0, gid=0, profile="root") == "65534 65534"
    else:
        assert _id_of(runtime, uid=5000, gid=5001) == f"{os.geteuid()} {os.getegid()}"


def _id_of(runtime: ProcessRuntime, **changes: object) -> str:
    found = started(runtime, 'touch ~/mine; test "$(pwd)" = "$HOME"; echo "$(id -u) $(id -g)"', **changes)
    ended(runtime, found.attempt)
    return output(runtime, found.attempt).strip()


def test_its_memory_is_limited(runtime: ProcessRuntime) -> None:
    limits = Limits(cpu_milli=500, memory_mb=64, shm_mb=8, pids=64)
    found = started(runtime, "python3 -c 'x = bytearray(256 << 20)' 2>/dev/null", limits=limits)
    ending = ended(runtime, found.attempt).ending
    assert ending is not None
    assert ending.code == 1


def test_a_removed_task_leaves_no_file_and_no_process(runtime: ProcessRuntime, tmp_path: Path) -> None:
    found = started(runtime, "trap '' TERM; sleep 600 & sleep 600")
    pid = _pid(tmp_path, found.attempt)
    runtime.remove(found.attempt)
    assert not _lives(pid or 0)
    assert list((tmp_path / "tasks").iterdir()) == list((tmp_path / "homes").iterdir()) == []


def test_a_folder_that_cannot_be_entered_is_the_tasks_end(runtime: ProcessRuntime, tmp_path: Path) -> None:
    spec = spec_of("true")
    runtime.create(spec, "h", IMAGE)
    (tmp_path / "homes" / spec.attempt).write_text("no folder")
    with pytest.raises(AttemptFailed) as failed:
        runtime.start(spec)
    assert failed.value.cause is Cause.ENGINE_FAULT


# ---------------------------------------------------------------- output


def test_output_is_read_on_from_any_place_without_gap_or_double(runtime: ProcessRuntime) -> None:
    found = started(runtime, COUNT.format(lines=2000, pause="") + "; echo end >&2")
    ended(runtime, found.attempt)
    whole = list(runtime.source(found.attempt).frames(Position()))
    assert b"".join(r.payload for r in whole if r.stream == 1).decode() == lines(2000)
    for cut in {0, 1, len(whole) // 2, len(whole)}:
        after = position_after(Position(), whole[:cut])
        assert list(runtime.source(found.attempt).frames(after)) == whole[cut:]


def test_a_long_output_is_cut_into_segments_and_those_read_are_dropped(runtime: ProcessRuntime, tmp_path: Path) -> None:
    segments = 6
    size = segments * wrapper.SEGMENT_BYTES
    found = started(runtime, f"head -c {size} /dev/zero")
    ended(runtime, found.attempt)
    position, read = Position(), 0
    for record in runtime.source(found.attempt).frames(position):
        read += len(record.payload)
    assert read == size
    assert len(list((tmp_path / "tasks" / found.attempt / "out").iterdir())) <= 4


def test_a_reader_that_is_closed_ends_soon(runtime: ProcessRuntime) -> None:
    found = started(runtime, "echo first; sleep 600")
    source = runtime.source(found.attempt)
    records = source.frames(Position())
    assert next(records).payload == b"first\n"
    source.close()
    assert list(records) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("/job", "/mnt/home/alice/7"),
        ("/job/out/x", "/mnt/home/alice/7/out/x"),
        ("/jobs", "/jobs"),
        ("/data/a", "/mnt/data/a"),
        ("plain", "plain"),
    ],
)
def test_paths_inside_a_mount_become_the_nodes_own(value: str, expected: str) -> None:
    assert on_node({"/job": "/mnt/home/alice/7", "/data": "/mnt/data"}, value) == expected


def _pid(folder: Path, attempt: str) -> int | None:
    with contextlib.suppress(FileNotFoundError):
        return int(json.loads((folder / "tasks" / attempt / "wrapper.json").read_text())["pid"])
    return None


def _lives(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def _states(runtime: ProcessRuntime, attempt: str) -> set[str]:
    """States of the task's processes, the wrapper apart."""
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if runtime.owner(process.pid) == attempt and wrapper.__file__ not in process.cmdline():
                found.add(str(process.status()))
    return found
