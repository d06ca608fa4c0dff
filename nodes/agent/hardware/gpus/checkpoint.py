"""One of CUDA's checkpoint calls on another process, in a child of the agent: libcuda may crash, hang, or not survive a
fork. Run as a file, with the standard library alone: ``checkpoint.py CALL PID LIMIT_MS``, CALL being ``state``,
``lock``, ``checkpoint``, ``restore``, ``unlock``, or ``probe`` for the library itself.

Prints one JSON object: ``code``, CUDA's answer (0: done), and ``state``, the process' own afterwards: null where it has
none, -1 where CUDA does not tell; or ``missing``, why there is no library.
"""

from __future__ import annotations

import ctypes
import json
import sys

INVALID_VALUE, NOT_INITIALIZED, NOT_FOUND, NOT_SUPPORTED = 1, 3, 500, 801
FIRST_VERSION = 12080
"""CUDA 12.8 is the first with these calls."""
_PREFIX = "cuCheckpointProcess"
_CALLS = ("Lock", "Checkpoint", "Restore", "Unlock", "GetState")


class _LockArgs(ctypes.Structure):
    """``CUcheckpointLockArgs``; what is reserved has to be 0."""

    _fields_ = (("timeout_ms", ctypes.c_uint), ("reserved0", ctypes.c_uint), ("reserved1", ctypes.c_uint64 * 7))


def main(call: str, pid: int, limit_ms: int) -> dict[str, object]:
    """What is printed."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return {"missing": str(error)}
    if code := cuda.cuInit(0):
        return {"code": code, "state": None}
    if call == "probe":
        return {"code": _probe(cuda), "state": None}
    code = 0
    if call != "state":
        argument = ctypes.byref(_LockArgs(timeout_ms=limit_ms)) if call == "lock" else None
        code = getattr(cuda, _PREFIX + call.capitalize())(ctypes.c_int(pid), argument)
    state = ctypes.c_int(-1)
    told = cuda.cuCheckpointProcessGetState(ctypes.c_int(pid), ctypes.byref(state))
    gone = told in (INVALID_VALUE, NOT_INITIALIZED)
    return {"code": code or (told if call == "state" else 0), "state": None if gone else state.value}


def _probe(cuda: ctypes.CDLL) -> int:
    version = ctypes.c_int(0)
    if code := cuda.cuDriverGetVersion(ctypes.byref(version)):
        return int(code)
    if version.value < FIRST_VERSION:
        return NOT_SUPPORTED
    return 0 if all(hasattr(cuda, _PREFIX + call) for call in _CALLS) else NOT_FOUND


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
