"""What OpenPAI's clients are told of an exit code, beside OpenPAI's own exit specification, and whether it is what
happens then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from django.utils import timezone

from nodes.agent.attempts.exit_cause import exit_of
from nodes.agent.runtimes.base import ContainerExit, RuntimeContainer, Status
from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause, StopReason
from portal.jobs.exits import verdict
from portal.jobs.models import TaskAttempt
from portal.jobs.states import AFTER, Behaviour, EndReason, Next
from portal.openpai.exits import container_code, ended_code, exit_spec
from tests.support.run.facts import read_json

_FILE = read_json("openpai/exit_codes.json")
SPEC: Mapping[int, Mapping[str, Any]] = {row[0]: dict(zip(_FILE["fields"], row, strict=True)) for row in _FILE["codes"]}
KNOWN = {
    field: {*words, *(one[field] for one in SPEC.values())}  # -8000 has an issuer of its own
    for field, words in _FILE["words"].items()
}
CLASSES = ("phrase", "issuer", "causer", "type", "stage", "behavior", "reaction")

DIFFERENT: Mapping[int, tuple[set[str], str]] = {
    128: (
        {"causer", "type"},
        "OpenPAI gives it to what ended beside a GPU with a memory error, which Berth tells as -1205; here a program"
        " gave up with this status by itself",
    ),
}
"""Codes of the specification that are told with other words in these fields."""

_PATTERN = "OpenPAI finds it by a pattern in the log; here it is only a program's own status, as 1 is"
_BARRIER = "OpenPAI's barrier of a gang ends with it inside the container; Berth's has no program there"
STATUSES: Mapping[int, str] = {
    **dict.fromkeys([*range(220, 227), *range(228, 236)], _PATTERN),
    **dict.fromkeys([249, 250, 251, 252], _BARRIER),
}
"""Codes of the specification that are no more than the status of a program: told as 255, of which the cause is not
known."""

_K8S = "tells of a part of Kubernetes that Berth does not have"
_CERTAIN = "OpenPAI does not know which end it was; Berth does: the job's fault is -200, the server's -120"
NEVER: Mapping[int, str] = {
    **dict.fromkeys([-100, -110, -111, -1002, -1003, -1006, -1100, -1300], _K8S),
    -230: "no job loses tasks while it runs",
    **dict.fromkeys([-310, -1201, -1204], _CERTAIN),
    **dict.fromkeys([-1202, -1203], "OpenPAI's runtime is at fault; here the job named that command: -200"),
    256: "stands for every status that the specification does not name; these are told as 255, which OpenPAI's runtime"
    " makes of them",
}
"""Codes of the specification that are never told."""

OURS: Mapping[int, tuple[int | None, str]] = {
    126: (220, "the shell's status for what cannot be executed"),
    127: (220, "the shell's status for what it does not find; OpenPAI looks for that status and the shell's words"),
    -1206: (None, "OpenPAI bounds no container's layer; Kubernetes evicts such a pod (-1000) and it is tried again"),
}
"""Codes beyond the specification, and as which of its own they are classed."""


class Way(NamedTuple):
    """A way to end: what is told of it, and what Berth makes of it."""

    name: str
    code: int | None
    behaviour: Behaviour


_BEHAVES = {
    Next.SUCCEED: Behaviour.UNKNOWN,  # as the specification has it of 0
    Next.FAIL: Behaviour.PERMANENT,
    Next.STOP: Behaviour.PERMANENT,
    Next.REQUEUE: Behaviour.TRANSIENT,
}
_STOPPED_FOR = {
    StopReason.PREEMPTED: EndReason.PREEMPTED,
    StopReason.DRAINED: EndReason.DRAINED,
    StopReason.TIME_LIMIT: EndReason.TIME_LIMIT,
}
"""Where the task knows of what ended its job's attempt; else it went with it."""


def _of_attempt(reason: EndReason) -> Behaviour:
    after = AFTER[reason]
    assert isinstance(after, Next), reason
    return _BEHAVES[after]


def _ended(exit: Exit) -> Way:
    run = TaskAttempt(cause=exit.cause, exit_code=exit.code)
    name = f"status {exit.code}" if exit.cause in {Cause.EXITED, Cause.SIGNALLED} else str(exit.cause)
    return Way(name, container_code(run), verdict(exit.cause, exit.code).behaviour)


def _ways() -> Iterator[Way]:
    for status in range(256):
        found = RuntimeContainer(
            attempt="a",
            container="c",
            spec_hash="h",
            status=Status.ENDED,
            ended_ms=1,
            ending=ContainerExit(code=status),
        )
        yield _ended(exit_of(found, None))
    for cause in set(Cause) - {Cause.EXITED, Cause.SIGNALLED, Cause.STOPPED}:
        way = _ended(Exit(cause=cause))
        yield way
        failed = ended_code(end_reason=EndReason.FAILED, exit_code=137, cause=cause)
        yield Way(f"an attempt for {cause}", failed, way.behaviour)
    for stop in StopReason:
        run = TaskAttempt(cause=Cause.STOPPED, stop_reason=stop)
        reason = _STOPPED_FOR.get(stop)
        behaviour = _of_attempt(reason) if reason else Behaviour.PERMANENT
        yield Way(f"stopped for {stop}", container_code(run), behaviour)
    for reason in set(EndReason) - {EndReason.FAILED, EndReason.START_FAILED}:
        yield Way(f"attempt: {reason}", ended_code(end_reason=reason, exit_code=None), _of_attempt(reason))
    yield Way("no spec", ended_code(end_reason=EndReason.START_FAILED, exit_code=None), Behaviour.PERMANENT)
    yield Way("no task known", ended_code(end_reason=EndReason.FAILED, exit_code=None), Behaviour.UNKNOWN)
    lost = container_code(TaskAttempt(lost_at=timezone.now()))
    yield Way("lost", lost, _of_attempt(EndReason.NODE_LOST))


WAYS = sorted(_ways())
TOLD = {way.code for way in WAYS}


def _told(code: int | None) -> dict[str, Any]:
    spec = exit_spec(code)
    assert spec
    return spec


def _differing(code: int, other: int) -> set[str]:
    """The fields in which what is told of the code is not what the specification says of the other."""
    told, spec = _told(code), SPEC[other]
    return {field for field in CLASSES if told[field] != spec[field]}


@pytest.mark.parametrize("way", WAYS, ids=[way.name for way in WAYS])
def test_what_is_told_of_an_end_is_what_happens(way: Way) -> None:
    assert _told(way.code)["behavior"] == str(way.behaviour).upper()


@pytest.mark.parametrize("code", sorted(SPEC))
def test_a_code_means_what_openpais_specification_says(code: int) -> None:
    if code in NEVER:
        assert code not in TOLD, NEVER[code]
        return
    assert code in TOLD
    if code in STATUSES:
        assert _differing(code, 255) <= {"issuer", "stage"}, STATUSES[code]
        return
    fields, why = DIFFERENT.get(code, (set(), ""))
    assert _differing(code, code) == fields, why
    assert {str(way.behaviour).upper() for way in WAYS if way.code == code} == {SPEC[code]["behavior"]}


def test_codes_beyond_the_specification_are_few_and_classed_as_its_own() -> None:
    beyond = {code for code in TOLD if code is not None} - set(SPEC)
    plain = {code for code in beyond if code > 0} - set(OURS)
    assert all(_differing(code, 255) <= {"issuer", "stage"} for code in plain)
    assert beyond - plain == set(OURS)
    for code, (as_which, why) in OURS.items():
        assert as_which is None or _differing(code, as_which) <= {"issuer"}, why
    assert (_told(-1206)["type"], _told(-1206)["behavior"]) == ("USER_FAILURE", "PERMANENT")


def test_every_code_is_told_in_the_words_of_openpais_lists() -> None:
    """Clients choose words and colours by them."""
    specs = [_told(code) for code in range(-8000, 257)]
    for field, known in KNOWN.items():
        assert {spec[field] for spec in specs} <= known, field
    missing = _told(127)
    assert (missing["code"], missing["phrase"], missing["type"]) == (127, "UserCommandExitWithError", "USER_FAILURE")
    assert missing["solution"] == ["Check the command's name and the image's PATH."]
