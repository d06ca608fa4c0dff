"""Scheduling cycles in processes of their own, each perhaps to its death: `python -m tests.reliability.faults.cycles`.

Reads lines: a fail-point (or nothing) runs one cycle with that armed and prints the process's exit status; `loop`
starts a process that runs one cycle after the other for ever, and `end` kills all of these.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

HOLDER = "cycles of a test"
"""One name for all: as the same scheduler started again, and so that the lease parts none of them."""


class Cycles:
    """The test's side."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run(self, failpoint: str = "") -> int:
        """One cycle. Returns 0, or -9 when it was killed at the fail-point."""
        return int(self._tell(failpoint))

    def loop(self) -> None:
        """A scheduler that never rests, beside all others."""
        self._tell("loop")

    def end(self) -> None:
        """The end of all loops."""
        self._tell("end")

    def _tell(self, line: str) -> str:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()


@contextmanager
def cycles(environment: Mapping[str, str]) -> Iterator[Cycles]:
    command = [sys.executable, "-m", "tests.reliability.faults.cycles"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(environment),
        cwd=Path(__file__).parents[3],
        text=True,
        start_new_session=True,
    ) as process:
        made = Cycles(process)
        try:
            yield made
        finally:
            made.end()
            assert process.stdin
            process.stdin.close()


def main() -> None:
    import django

    django.setup()
    import portal.scheduler.cycle  # noqa: F401 - once here, not in every child

    loops: list[int] = []
    for line in sys.stdin:
        wanted = line.strip()
        if wanted == "loop":
            loops.append(forked(cycle_for_ever))
            print("looping", flush=True)
        elif wanted == "end":
            for pid in loops:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            loops.clear()
            print("ended", flush=True)
        else:
            status = os.waitpid(forked(partial(cycle_once, wanted)), 0)[1]
            print(os.waitstatus_to_exitcode(status), flush=True)


def forked(work: Callable[[], None]) -> int:
    """A child that does this and ends; it inherits no connection, since its parent opens none."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


def cycle_once(failpoint: str) -> None:
    from django.utils import timezone

    from portal.common.failpoint import failpoint_arm
    from portal.scheduler.cycle import Scheduler

    failpoint_arm(failpoint)
    assert Scheduler(HOLDER).cycle(now=timezone.now()) is not None, "another scheduler holds the lease"


def cycle_for_ever() -> None:
    from django.utils import timezone

    from portal.scheduler.cycle import Scheduler

    scheduler = Scheduler(HOLDER)
    while True:
        scheduler.cycle(now=timezone.now())


if __name__ == "__main__":
    main()
