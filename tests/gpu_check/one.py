"""One check in this process: `python -m tests.gpu_check.one CHECK UUID SECONDS [PYTHON]`. It prints a JSON object a
line: what was measured, and at the end `result` and `text`."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pynvml

from tests.gpu_check.bench import Bench
from tests.gpu_check.checks import CHECKS, LOOK
from tests.gpu_check.cuda import CudaError
from tests.gpu_check.failing import Failed, NotHere

ALONE_S = 30
"""So long after its deadline it ends by itself, when nobody is left to kill it."""


def tell(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


def on_bench(run: Callable[[Bench], str], uuid: str, torch_python: str, deadline: float) -> str:
    """Runs a check that starts programs, and ends them whatever comes of it."""
    bench = Bench(uuid, torch_python, deadline, tell)
    try:
        text = run(bench)
    except BaseException:
        try:
            bench.close()
        except Failed as error:
            print(error, file=sys.stderr)
        raise
    bench.close()
    return text


def told(name: str, uuid: str) -> str:
    """What NVML and the agent tell, without a program on the GPU."""
    from tests.gpu_check.facts import facts, look  # the agent's libraries take a moment to load

    return look(tell) if name == "look" else facts(uuid, tell)


def main(name: str, uuid: str, seconds: str, torch_python: str = "") -> None:
    deadline = time.monotonic() + float(seconds)
    signal.alarm(round(float(seconds)) + ALONE_S)
    check = LOOK if name == "look" else CHECKS[name]
    try:
        text = on_bench(check.run, uuid, torch_python, deadline) if check.run else told(name, uuid)
        tell({"result": "passed", "text": text})
    except NotHere as error:
        tell({"result": "not here", "text": str(error)})
    except (Failed, CudaError, pynvml.NVMLError, OSError) as error:
        tell({"result": "failed", "text": str(error)})


if __name__ == "__main__":
    main(*sys.argv[1:])
