"""What a container's end means: one sentence for people, and whether a retry can help.

The classes follow OpenPAI's exit specification (k8s-job-exit-spec.yaml); the words are ours.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace

from django.utils.translation import gettext_noop

from nodes.protocol.states import NODE_FAULTS, Cause
from portal.jobs.states import Behaviour


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an end means. ``sentence``: what happened and what to do; ``node_fault``: blame the node, not the job;
    ``over_limit``: the first end of its kind that is no longer blamed on others."""

    sentence: str
    behaviour: Behaviour
    node_fault: bool = False
    over_limit: bool = False


_CODES: dict[int, tuple[str, Behaviour]] = {
    126: (gettext_noop("a command is not executable: check its mode bits and its first line"), Behaviour.PERMANENT),
    127: (gettext_noop("a command was not found: check its name and the image's PATH"), Behaviour.PERMANENT),
    128: (gettext_noop("its program gave up with status 128; a GPU memory error can be behind it"), Behaviour.UNKNOWN),
    130: (gettext_noop("it was interrupted (SIGINT) from outside"), Behaviour.TRANSIENT),
    131: (gettext_noop("it was told to quit (SIGQUIT) from outside"), Behaviour.TRANSIENT),
    132: (gettext_noop("it ran an instruction this CPU does not know (SIGILL)"), Behaviour.PERMANENT),
    134: (gettext_noop("it aborted (SIGABRT): see the end of its log"), Behaviour.UNKNOWN),
    135: (
        gettext_noop("it touched memory that is not there (SIGBUS); a full /dev/shm does this: raise shmMB"),
        Behaviour.PERMANENT,
    ),
    136: (gettext_noop("it divided by zero or the like (SIGFPE)"), Behaviour.PERMANENT),
    137: (gettext_noop("it was killed (SIGKILL) from outside"), Behaviour.TRANSIENT),
    139: (gettext_noop("it touched memory that is not its own (SIGSEGV)"), Behaviour.UNKNOWN),
    141: (gettext_noop("it wrote into a closed pipe (SIGPIPE)"), Behaviour.PERMANENT),
    143: (gettext_noop("it was asked to end (SIGTERM) from outside"), Behaviour.TRANSIENT),
}

_OTHER = (gettext_noop("see the end of its log"), Behaviour.UNKNOWN)

_CAUSES: dict[Cause, tuple[str, Behaviour]] = {
    Cause.OOM: (
        gettext_noop("it used more memory than its memoryMB and the kernel killed it: ask for more"),
        Behaviour.PERMANENT,
    ),
    Cause.UNKILLABLE: (
        gettext_noop("it did not end after SIGKILL; its GPUs stay fenced until it is gone"),
        Behaviour.UNKNOWN,
    ),
    Cause.VANISHED: (gettext_noop("its container was removed by somebody else"), Behaviour.TRANSIENT),
    Cause.IMAGE_MISSING: (
        gettext_noop("its image was not found: check the uri and that the nodes reach it"),
        Behaviour.PERMANENT,
    ),
    Cause.IMAGE_AWAY: (gettext_noop("the registry does not give its image now"), Behaviour.TRANSIENT),
    Cause.IMAGE_PLATFORM: (
        gettext_noop("its image is made for other processors: take one for those of the nodes"),
        Behaviour.PERMANENT,
    ),
    Cause.NO_SHELL: (
        gettext_noop("its image has no shell, by which commands are run: take one with /bin/sh"),
        Behaviour.PERMANENT,
    ),
    Cause.IMAGE_DENIED: (
        gettext_noop("the registry refused its image: check the uri and the auth"),
        Behaviour.PERMANENT,
    ),
    Cause.IMAGE_MISMATCH: (gettext_noop("the nodes hold different images under one name"), Behaviour.TRANSIENT),
    Cause.REFUSED: (gettext_noop("the node's own policy forbids it"), Behaviour.PERMANENT),
    Cause.INVALID: (gettext_noop("the container engine refused it"), Behaviour.PERMANENT),
    Cause.PORT_TAKEN: (gettext_noop("a port it was given is in use on the node"), Behaviour.TRANSIENT),
    Cause.STORAGE_MISSING: (gettext_noop("a storage that it needs cannot be used on the node"), Behaviour.TRANSIENT),
    Cause.DEVICE_FAULT: (gettext_noop("the node could not give it its GPUs"), Behaviour.TRANSIENT),
    Cause.CODE_MISSING: (gettext_noop("the code that comes with it could not be had"), Behaviour.PERMANENT),
    Cause.NO_SPACE: (gettext_noop("the node's disk is full"), Behaviour.TRANSIENT),
    Cause.LAYER_FULL: (
        gettext_noop("it wrote too much outside all storages: write to a storage or to $BERTH_JOB_DIR"),
        Behaviour.PERMANENT,
    ),
    Cause.ENGINE_FAULT: (gettext_noop("the node's container engine failed"), Behaviour.TRANSIENT),
}


SENTENCES = tuple(sentence for sentence, _ in (*_CODES.values(), _OTHER, *_CAUSES.values()))
"""Every verdict's sentence, without exit codes and the node's detail."""


OOM_SEEN = gettext_noop("The kernel had killed one of its processes for memory: it may need more memoryMB.")


def verdict(cause: str, code: int | None, message: str = "", *, oom_seen: bool = False) -> Verdict:
    """The verdict on a container's end as its node reported it. ``message`` is the node's own sentence; ``oom_seen``:
    the kernel killed one of its processes for memory, which is mentioned but decides nothing."""
    found = _of_cause(Cause(cause), code, message)
    return replace(found, sentence=f"{found.sentence} {OOM_SEEN}") if oom_seen else found


def _of_cause(kind: Cause, code: int | None, message: str) -> Verdict:
    if kind in {Cause.EXITED, Cause.SIGNALLED}:
        sentence, behaviour = _CODES.get(code or 0, _OTHER)
        return Verdict(f"exit status {code} ({_name(code)}): {sentence}.", behaviour)
    if kind is Cause.STOPPED:
        return Verdict(message or "it was stopped.", Behaviour.PERMANENT)
    sentence, behaviour = _CAUSES[kind]
    detail = f" ({message})" if message else ""
    return Verdict(f"{sentence}{detail}.", behaviour, kind in NODE_FAULTS)


def _name(code: int | None) -> str:
    if code is None:
        return "none"
    if code > 128 and code - 128 in {int(one) for one in signal.Signals}:
        return signal.Signals(code - 128).name
    return "an error" if code else "success"
