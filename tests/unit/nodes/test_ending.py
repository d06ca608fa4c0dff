"""Which cause an ended container gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodes.agent.attempts.exit_cause import exit_of, exit_unbegun
from nodes.agent.attempts.journal import Stopping
from nodes.agent.runtimes.base import ContainerExit, RuntimeContainer, Status
from nodes.protocol.states import Cause, StopReason

ASKED = 1_000_000
OURS = Stopping(
    reason=StopReason.PREEMPTED, message="preempted by b/x#2 of team vision", grace_s=30, asked_ms=ASKED, term_at=5.0
)
NOT_YET_SENT = Stopping(reason=StopReason.USER, message="", grace_s=30, asked_ms=ASKED)


def ended(code: int | None, *, oom: bool = False, error: str = "", ended_ms: int = ASKED + 500) -> RuntimeContainer:
    ending = ContainerExit(code=code, oom=oom, error=error)
    return RuntimeContainer(
        attempt="a", container="c", spec_hash="h", status=Status.ENDED, ended_ms=ended_ms, ending=ending
    )


@pytest.mark.parametrize(
    ("found", "stopping", "cause", "signal"),
    [
        (ended(0), None, Cause.EXITED, None),
        (ended(3), None, Cause.EXITED, None),
        (ended(127), None, Cause.EXITED, None),
        (ended(255), None, Cause.EXITED, None),
        (ended(137), None, Cause.SIGNALLED, 9),
        (ended(139), None, Cause.SIGNALLED, 11),
        (ended(143), None, Cause.SIGNALLED, 15),
        (ended(137, oom=True), None, Cause.OOM, 9),
        (ended(1, oom=True), None, Cause.EXITED, None),
        (ended(139, oom=True), None, Cause.SIGNALLED, 11),
        (ended(143, oom=True), None, Cause.SIGNALLED, 15),
        (ended(0, oom=True), None, Cause.EXITED, None),
        (ended(143), OURS, Cause.STOPPED, 15),
        (ended(0), OURS, Cause.STOPPED, None),
        (ended(137), OURS, Cause.STOPPED, 9),
        (ended(1, ended_ms=ASKED - 1), OURS, Cause.EXITED, None),
        (ended(1, ended_ms=ASKED), OURS, Cause.STOPPED, None),
        (ended(1), NOT_YET_SENT, Cause.EXITED, None),
        (ended(None), None, Cause.VANISHED, None),
        (ended(None), OURS, Cause.STOPPED, None),
        (ended(None, error="its status is lost"), None, Cause.ENGINE_FAULT, None),
    ],
    ids=[
        "it ended well",
        "its own failure",
        "a command not found",
        "255 is no signal",
        "killed by somebody",
        "crashed",
        "terminated by somebody",
        "the kernel killed it for memory",
        "a child was killed for memory and it failed",
        "a child was killed for memory and it crashed",
        "a child was killed for memory and somebody ended it",
        "a child was killed for memory and it ended well",
        "our stop, by its handler",
        "our stop, it ended well within the grace",
        "our stop, after the grace",
        "it ended by itself before the stop",
        "it ended in the millisecond of our stop",
        "it ended by itself before our signal",
        "nobody saw the end",
        "our stop, and nobody saw the end",
        "the runtime says why nobody saw the end",
    ],
)
def test_an_end_has_one_cause(
    found: RuntimeContainer, stopping: Stopping | None, cause: Cause, signal: int | None
) -> None:
    exit = exit_of(found, stopping)
    assert found.ending is not None
    assert (exit.cause, exit.signal, exit.code) == (cause, signal, found.ending.code)
    assert exit.message


@pytest.mark.parametrize(
    ("unsure", "rebooted", "cause", "code"),
    [
        ("it is lost", True, Cause.ENGINE_FAULT, None),
        ("it is lost", False, Cause.EXITED, 0),
        ("", True, Cause.EXITED, 0),
    ],
)
def test_a_status_that_may_be_made_up_counts_for_nothing_after_a_start_of_the_machine(
    unsure: str, rebooted: bool, cause: Cause, code: int | None
) -> None:
    found = replace(ended(0), ending=ContainerExit(code=0, unsure=unsure))
    exit = exit_of(found, None, rebooted=rebooted)
    assert (exit.cause, exit.code) == (cause, code)
    stopped = exit_of(found, OURS, rebooted=rebooted)
    assert (stopped.cause, stopped.code) == (Cause.STOPPED, code)


TINI = "[FATAL tini (7)] exec /bin/sh failed: "


@pytest.mark.parametrize(
    ("code", "tail", "cause"),
    [
        (127, f"{TINI}No such file or directory\n", Cause.NO_SHELL),
        (1, f"{TINI}Exec format error\n", Cause.IMAGE_PLATFORM),
        (1, f"more before it\n{TINI}Exec format error\n", Cause.IMAGE_PLATFORM),
        (1, f"{TINI}Exec format error\nand more after it\n", Cause.EXITED),
        (0, f"{TINI}Exec format error\n", Cause.EXITED),
        (137, f"{TINI}Exec format error\n", Cause.SIGNALLED),
        (127, "sh: nothing: not found\n", Cause.EXITED),
    ],
)
def test_an_image_whose_shell_cannot_be_started_is_told_by_what_init_says_last(
    code: int, tail: str, cause: Cause
) -> None:
    assert exit_unbegun(exit_of(ended(code), None), tail).cause is cause


def test_our_own_stop_hands_its_reason_and_words_back() -> None:
    exit = exit_of(ended(143), OURS)
    assert (exit.stop_reason, exit.message) == (StopReason.PREEMPTED, "preempted by b/x#2 of team vision")


@pytest.mark.parametrize(("code", "told"), [(0, "it ended well"), (1, "exit status 1"), (139, "killed by SIGSEGV")])
def test_a_child_killed_for_memory_is_told_beside_the_true_end(code: int, told: str) -> None:
    exit = exit_of(ended(code, oom=True), None)
    assert exit.oom_seen
    assert told in exit.message
    assert exit.message.endswith("; one of its processes used more memory than its limit")
