"""What a container's end means: one sentence for people, and whether a retry can help.

The classes follow OpenPAI's exit specification (k8s-job-exit-spec.yaml); the words are ours.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace

from nodes.protocol.states import NODE_FAULTS, Cause
from nodes.protocol.wording import Wording
from portal.jobs.states import Behaviour


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an end means. ``sentence``: what happened and what to do; ``node_fault``: blame the node, not the job;
    ``over_limit``: the first end of its kind that is no longer blamed on others."""

    sentence: str
    behaviour: Behaviour
    node_fault: bool = False
    over_limit: bool = False


_CODES: dict[int, tuple[Wording, Behaviour]] = {
    126: (
        Wording("exit_126", "a command is not executable: check its mode bits and its first line"),
        Behaviour.PERMANENT,
    ),
    127: (Wording("exit_127", "a command was not found: check its name and the image's PATH"), Behaviour.PERMANENT),
    128: (
        Wording("exit_128", "its program gave up with status 128; a GPU memory error can be behind it"),
        Behaviour.UNKNOWN,
    ),
    130: (Wording("exit_130", "it was interrupted (SIGINT) from outside"), Behaviour.TRANSIENT),
    131: (Wording("exit_131", "it was told to quit (SIGQUIT) from outside"), Behaviour.TRANSIENT),
    132: (Wording("exit_132", "it ran an instruction this CPU does not know (SIGILL)"), Behaviour.PERMANENT),
    134: (Wording("exit_134", "it aborted (SIGABRT): see the end of its log"), Behaviour.UNKNOWN),
    135: (
        Wording("exit_135", "it touched memory that is not there (SIGBUS); a full /dev/shm does this: raise shmMB"),
        Behaviour.PERMANENT,
    ),
    136: (Wording("exit_136", "it divided by zero or the like (SIGFPE)"), Behaviour.PERMANENT),
    137: (Wording("exit_137", "it was killed (SIGKILL) from outside"), Behaviour.TRANSIENT),
    139: (Wording("exit_139", "it touched memory that is not its own (SIGSEGV)"), Behaviour.UNKNOWN),
    141: (Wording("exit_141", "it wrote into a closed pipe (SIGPIPE)"), Behaviour.PERMANENT),
    143: (Wording("exit_143", "it was asked to end (SIGTERM) from outside"), Behaviour.TRANSIENT),
}

_OTHER = (Wording("exit_other", "see the end of its log"), Behaviour.UNKNOWN)

_CAUSES: dict[Cause, tuple[Wording, Behaviour]] = {
    Cause.OOM: (
        Wording("end_oom", "it used more memory than its memoryMB and the kernel killed it: ask for more"),
        Behaviour.PERMANENT,
    ),
    Cause.UNKILLABLE: (
        Wording("end_unkillable", "it did not end after SIGKILL; its GPUs stay fenced until it is gone"),
        Behaviour.UNKNOWN,
    ),
    Cause.VANISHED: (Wording("end_vanished", "its container was removed by somebody else"), Behaviour.TRANSIENT),
    Cause.IMAGE_MISSING: (
        Wording("end_image_missing", "its image was not found: check the uri and that the nodes reach it"),
        Behaviour.PERMANENT,
    ),
    Cause.IMAGE_AWAY: (Wording("end_image_away", "the registry does not give its image now"), Behaviour.TRANSIENT),
    Cause.IMAGE_PLATFORM: (
        Wording("end_image_platform", "its image is made for other processors: take one for those of the nodes"),
        Behaviour.PERMANENT,
    ),
    Cause.NO_SHELL: (
        Wording("end_no_shell", "its image has no shell, by which commands are run: take one with /bin/sh"),
        Behaviour.PERMANENT,
    ),
    Cause.IMAGE_DENIED: (
        Wording("end_image_denied", "the registry refused its image: check the uri and the auth"),
        Behaviour.PERMANENT,
    ),
    Cause.IMAGE_MISMATCH: (
        Wording("end_image_mismatch", "the nodes hold different images under one name"),
        Behaviour.TRANSIENT,
    ),
    Cause.REFUSED: (Wording("end_refused", "the node's own policy forbids it"), Behaviour.PERMANENT),
    Cause.INVALID: (Wording("end_invalid", "the container engine refused it"), Behaviour.PERMANENT),
    Cause.PORT_TAKEN: (Wording("end_port_taken", "a port it was given is in use on the node"), Behaviour.TRANSIENT),
    Cause.STORAGE_MISSING: (
        Wording("end_storage_missing", "a storage that it needs cannot be used on the node"),
        Behaviour.TRANSIENT,
    ),
    Cause.DEVICE_FAULT: (Wording("end_device_fault", "the node could not give it its GPUs"), Behaviour.TRANSIENT),
    Cause.CODE_MISSING: (
        Wording("end_code_missing", "the code that comes with it could not be had"),
        Behaviour.PERMANENT,
    ),
    Cause.NO_SPACE: (Wording("end_no_space", "the node's disk is full"), Behaviour.TRANSIENT),
    Cause.LAYER_FULL: (
        Wording("end_layer_full", "it wrote too much outside all storages: write to a storage or to $BERTH_JOB_DIR"),
        Behaviour.PERMANENT,
    ),
    Cause.ENGINE_FAULT: (Wording("end_engine_fault", "the node's container engine failed"), Behaviour.TRANSIENT),
}


CAUSES = {
    Cause.EXITED: Wording("cause_exited", "exited"),
    Cause.SIGNALLED: Wording("cause_signalled", "signalled"),
    Cause.OOM: Wording("cause_oom", "oom"),
    Cause.STOPPED: Wording("cause_stopped", "stopped"),
    Cause.UNKILLABLE: Wording("cause_unkillable", "unkillable"),
    Cause.VANISHED: Wording("cause_vanished", "vanished"),
    Cause.IMAGE_MISSING: Wording("cause_image_missing", "image missing"),
    Cause.IMAGE_AWAY: Wording("cause_image_away", "image away"),
    Cause.IMAGE_PLATFORM: Wording("cause_image_platform", "image platform"),
    Cause.NO_SHELL: Wording("cause_no_shell", "no shell"),
    Cause.IMAGE_DENIED: Wording("cause_image_denied", "image denied"),
    Cause.IMAGE_MISMATCH: Wording("cause_image_mismatch", "image mismatch"),
    Cause.REFUSED: Wording("cause_refused", "refused"),
    Cause.INVALID: Wording("cause_invalid", "invalid"),
    Cause.PORT_TAKEN: Wording("cause_port_taken", "port taken"),
    Cause.STORAGE_MISSING: Wording("cause_storage_missing", "storage missing"),
    Cause.DEVICE_FAULT: Wording("cause_device_fault", "device fault"),
    Cause.CODE_MISSING: Wording("cause_code_missing", "code missing"),
    Cause.NO_SPACE: Wording("cause_no_space", "no space"),
    Cause.LAYER_FULL: Wording("cause_layer_full", "layer full"),
    Cause.ENGINE_FAULT: Wording("cause_engine_fault", "engine fault"),
}
"""What ended a container, in a word or two."""

OOM_SEEN = Wording("oom_seen", "The kernel had killed one of its processes for memory: it may need more memoryMB.")
WITH_OOM_SEEN = Wording(
    "with_oom_seen", "%(why)s The kernel had killed one of its processes for memory: it may need more memoryMB."
)
EXIT = Wording("exit", "exit status %(code)s (%(name)s): %(why)s.")
AN_ERROR = Wording("exit_error", "an error")
SUCCESS = Wording("exit_success", "success")
NONE = Wording("exit_none", "none")
STOPPED = Wording("end_stopped", "it was stopped.")
END = Wording("end", "%(what)s.")
END_OF = Wording("end_of", "%(what)s (%(detail)s).")
FAILED_OFTEN = Wording(
    "failed_often",
    "%(why)s Its program has ended so %(times)s times: from now on that counts as a failure of its own.",
)
TRIED_UNTIL = Wording("tried_until", "%(why)s It is tried until %(time)s UTC.")
TRIED_FOR = Wording("tried_for", "%(why)s It was tried for %(minutes)s minutes.")


def verdict(cause: str, code: int | None, message: str = "", *, oom_seen: bool = False) -> Verdict:
    """The verdict on a container's end as its node reported it. ``message`` is the node's own sentence; ``oom_seen``:
    the kernel killed one of its processes for memory, which is mentioned but decides nothing."""
    found = _of_cause(Cause(cause), code, message)
    return replace(found, sentence=WITH_OOM_SEEN(why=found.sentence)) if oom_seen else found


def _of_cause(kind: Cause, code: int | None, message: str) -> Verdict:
    if kind in {Cause.EXITED, Cause.SIGNALLED}:
        sentence, behaviour = _CODES.get(code or 0, _OTHER)
        return Verdict(EXIT(code=code, name=_name(code), why=sentence()), behaviour)
    if kind is Cause.STOPPED:
        return Verdict(message or STOPPED(), Behaviour.PERMANENT)
    sentence, behaviour = _CAUSES[kind]
    told = END_OF(what=sentence(), detail=message) if message else END(what=sentence())
    return Verdict(told, behaviour, kind in NODE_FAULTS)


def _name(code: int | None) -> str:
    if code is None:
        return NONE()
    if code > 128 and code - 128 in {int(one) for one in signal.Signals}:
        return signal.Signals(code - 128).name
    return AN_ERROR() if code else SUCCESS()
