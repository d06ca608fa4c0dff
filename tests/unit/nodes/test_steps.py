"""Steps of a training: found in its log or read from its file, whatever a program writes there."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nodes.agent.attempts.task_files import AHEAD_MS, StepsFile
from nodes.agent.steps import LONGEST_LINE, LogSteps, StepClock
from nodes.protocol.logs import MARK, STDERR, STDOUT, LogRecord
from nodes.protocol.messages import Steps
from nodes.protocol.states import StepFault
from nodes.protocol.steps import PatternInvalid, steps_pattern

NOW_MS = 1_000_000


def told(pattern: str, *prints: bytes | tuple[int, bytes], stream: int = STDOUT) -> Steps | None:
    """What the log says that these make, one a second; a pair names its stream."""
    steps = LogSteps(pattern)
    for number, printed in enumerate(prints):
        at, payload = printed if isinstance(printed, tuple) else (stream, printed)
        steps.take(LogRecord((number + 1) * 10**9, at, payload))
    return steps.read()


# ---------------------------------------------------------------- of the log


@pytest.mark.parametrize(
    ("prints", "step", "at_ms"),
    [
        ([b"epoch 1\n", b"step 7 loss 3.1\n", b"saved\n"], 7, 2000),
        ([b"step 1\nstep 2\nstep 3\n"], 3, 1000),
        ([b" 1%|  | step 1\r 2%|  | step 2\r", b" 3%|  | step 3"], 2, 1000),  # the third has no end yet
        ([b"st", b"ep 1", b"2\n"], 12, 3000),
        ([(STDOUT, b"ste"), (STDERR, b"a warning\n"), (STDOUT, b"p 5\n")], 5, 3000),
        (["步数 step 9\n".encode()], 9, 1000),
        ([b"step 99 \xff\xfe loss\n"], 99, 1000),
    ],
)
def test_the_newest_whole_line_counts(prints: list[bytes | tuple[int, bytes]], step: int, at_ms: int) -> None:
    found = told(r"step (\d+)", *prints)
    assert found is not None
    assert (found.step, found.at_ms, found.fault) == (step, at_ms, None)


def test_a_pattern_may_look_past_letters_of_any_language() -> None:
    found = told(r"第(\d+)步", "第42步 损失 1.5\n".encode())
    assert found is not None
    assert found.step == 42


def test_no_pattern_keeps_the_server_busy() -> None:
    pattern = r".*a.{1000}.{1000}.{1000}.{1000}.{1000}.{1000}.{1000}(\d)"
    line = bytes(random.Random(1).choices(b"ab", k=4096)) + b"\n"
    steps, began = LogSteps(pattern), time.thread_time()
    for _ in range(30):
        steps.take(LogRecord(10**9, STDOUT, line))
    assert time.thread_time() - began < 5
    assert steps.read() == Steps(fault=StepFault.SLOW)


def test_a_common_pattern_finds_each_step_however_fast_they_come() -> None:
    steps = LogSteps(r"step (\d+)")
    for number in range(20_000):
        steps.take(LogRecord(number * 50_000, STDOUT, b"epoch 1 step %d loss 0.123456 lr 1e-4 it/s 1234.5\n" % number))
    assert steps.read() == Steps(step=19_999, at_ms=999, step_ms=0.05)


def test_berths_own_lines_are_not_searched() -> None:
    assert told(r"step (\d+)", (MARK, b"step 3\n")) is None


def test_of_a_line_without_an_end_no_more_than_its_beginning_is_kept() -> None:
    steps = LogSteps(r"step (\d+)")
    began = time.process_time()
    for number in range(2000):
        steps.take(LogRecord(number, STDOUT, b"x" * 65_536))
    steps.take(LogRecord(5000, STDOUT, b" step 3\n"))
    assert time.process_time() - began < 5
    assert steps.read() is None
    steps.take(LogRecord(6 * 10**9, STDOUT, b"step 4\n"))
    assert steps.read() == Steps(step=4, at_ms=6000)


@pytest.mark.parametrize(
    ("pattern", "line", "found"),
    [
        (r"(\d+)", b"1" * 20_000_000, Steps(fault=StepFault.NUMBER)),
        (r"(.+)", b"x" * 20_000_000, Steps(fault=StepFault.NUMBER)),
        (r"step (\d+)", b"x" * (LONGEST_LINE - 7) + b"step 1234", None),  # cut after the 12
        (r"step (\d+)", b"x" * (LONGEST_LINE - 7) + b"step 1 of 5", Steps(step=1, at_ms=1000)),
    ],
)
def test_of_a_long_line_no_number_is_taken_that_is_not_whole(pattern: str, line: bytes, found: Steps | None) -> None:
    assert told(pattern, line + b"\n") == found


@pytest.mark.parametrize("number", ["9" * 30, "1e3", "", "-4"])
def test_a_group_that_is_no_whole_number_is_told_until_one_is(number: str) -> None:
    steps = LogSteps("step (.*) of")
    steps.take(LogRecord(10**9, STDOUT, f"step {number} of\n".encode()))
    assert steps.read() == Steps(fault=StepFault.NUMBER)
    steps.take(LogRecord(2 * 10**9, STDOUT, b"step 5 of\n"))
    assert steps.read() == Steps(step=5, at_ms=2000)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("step (", "missing"),
        (r"step \d+", "first group"),
        (r"(\d*)", "an empty line"),
        (r"(?=step) (\d+)", "RE2"),
        (r"((a{900}){900}) (\d+)", "RE2"),
        (r"(\d+)\1", "RE2"),
    ],
)
def test_a_pattern_that_cannot_work_is_refused_with_the_reason(pattern: str, why: str) -> None:
    with pytest.raises(PatternInvalid, match=why):
        steps_pattern(pattern)


def test_a_pattern_that_would_backtrack_takes_its_time_by_the_line() -> None:
    steps = LogSteps(r"(\d+)(a|a|b?)*(a*)*c")
    began = time.process_time()
    steps.take(LogRecord(1, STDOUT, b"1" + b"a" * 100_000 + b"\n"))
    assert time.process_time() - began < 1
    assert steps.read() is None


# ---------------------------------------------------------------- how long one takes


def test_the_time_of_a_step_is_that_of_the_steps_since_the_last_reading() -> None:
    clock = StepClock()
    clock.seen(10, 0)
    assert clock.read() == Steps(step=10, at_ms=0)
    for step in (11, 12, 14):
        clock.seen(step, (step - 10) * 500)
    assert clock.read() == Steps(step=14, at_ms=2000, step_ms=500)
    clock.seen(15, 12_000)
    assert clock.read() == clock.read() == Steps(step=15, at_ms=12_000, step_ms=10_000)


def test_a_number_that_goes_back_begins_anew_and_one_told_twice_is_no_step() -> None:
    clock = StepClock()
    for step, at_ms in ((1, 0), (2, 100), (2, 900), (1, 1000), (3, 1400)):
        clock.seen(step, at_ms)
    assert clock.read() == Steps(step=3, at_ms=1400, step_ms=200)


# ---------------------------------------------------------------- of the file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "steps"


def read(file: Path) -> Steps | None:
    return StepsFile(str(file.parent), str(file), lambda: NOW_MS).read()


def test_the_file_says_number_and_moment(file: Path) -> None:
    reader = StepsFile(str(file.parent), str(file), lambda: NOW_MS)
    assert reader.read() is None
    file.write_text("100 500000")
    assert reader.read() == Steps(step=100, at_ms=500_000)
    file.write_text("")  # in the middle of a write
    assert reader.read() == Steps(step=100, at_ms=500_000)
    file.write_text("104 502000\n")
    assert reader.read() == Steps(step=104, at_ms=502_000, step_ms=500)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("12", StepFault.TEXT),
        ("one 500000", StepFault.TEXT),
        ("1 2 3", StepFault.TEXT),
        ("1" * 100, StepFault.LONG),
        ("x" * 10_000_000, StepFault.LONG),
        (f"12 {NOW_MS + AHEAD_MS + 1}", StepFault.FUTURE),
        (f"{10**16 - 1} 500000", StepFault.NUMBER),
    ],
)
def test_a_file_that_says_something_else_is_told(file: Path, text: str, fault: StepFault) -> None:
    file.write_text(text)
    assert read(file) == Steps(fault=fault)


def link_elsewhere(file: Path) -> None:
    secret = file.with_name("secret")
    secret.write_text("99 600000")
    file.symlink_to(secret)


def link_to_nothing(file: Path) -> None:
    file.symlink_to(file.with_name("not there"))


def endless(file: Path) -> None:
    """The file's end is farther away than any disk is large."""
    with file.open("wb") as made:
        made.truncate(1 << 40)


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (link_elsewhere, StepFault.LINK),
        (link_to_nothing, StepFault.LINK),
        (os.mkfifo, StepFault.NO_FILE),
        (Path.mkdir, StepFault.NO_FILE),
        (endless, StepFault.LONG),
        (lambda file: file.write_text(f"99 {NOW_MS + AHEAD_MS + 1}"), StepFault.FUTURE),
        (lambda file: file.write_text("99"), StepFault.TEXT),
    ],
)
def test_what_is_no_such_file_is_told_and_the_step_that_was_known_stays(
    file: Path, make: Callable[[Path], object], fault: StepFault
) -> None:
    reader = StepsFile(str(file.parent), str(file), lambda: NOW_MS)
    file.write_text("12 500000")
    assert reader.read() == Steps(step=12, at_ms=500_000)
    file.unlink()
    make(file)
    assert reader.read() == Steps(step=12, at_ms=500_000, fault=fault)
    file.rename(file.with_name("away"))
    file.write_text("14 501000")
    assert reader.read() == Steps(step=14, at_ms=501_000, step_ms=500)
