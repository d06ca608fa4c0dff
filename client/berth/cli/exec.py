"""`berth exec`: a program in a running task, as if it ran here."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Annotated, Any, NoReturn

import typer

from berth.cli.exit_codes import INTERRUPTED
from berth.cli.jobs import JobName, session
from berth.cli.target import TaskName, job_id, newest_attempt
from berth.client import Client
from berth.errors import BerthError
from berth.shell import PIECE, Shell

STDIN, STDOUT = 0, 1


def exec_(
    ctx: typer.Context,
    job: JobName,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND…]", help="What to run; else the task's best shell.")
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", "-t", metavar="ROLE/INDEX", help="In which task; else in the first.")
    ] = None,
    terminal: Annotated[
        bool | None,
        typer.Option("--tty/--no-tty", help="On a terminal, or on pipes; else as this command itself runs."),
    ] = None,
) -> None:
    """Run a program in a running task, such as a shell. The exit code is the program's."""
    wanted = TaskName.of(task) if task is not None else None
    on_terminal = terminal if terminal is not None else os.isatty(STDIN) and os.isatty(STDOUT)
    with session(ctx).client() as client:
        attempt = newest_attempt(client, job_id(client, job), wanted)
        try:
            raise typer.Exit(_run(client, attempt.id, command or [], on_terminal))
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


def _run(client: Client, attempt: str, command: list[str], on_terminal: bool) -> int:
    columns, rows = _size()
    term = os.environ.get("TERM", "xterm")
    options: Any = {"tty": True, "rows": rows, "columns": columns, "term": term} if on_terminal else {}
    with contextlib.ExitStack() as stack:
        shell = stack.enter_context(client.exec(attempt, command, **options))
        woken = stack.enter_context(_signals(on_terminal))
        if on_terminal and os.isatty(STDIN):
            stack.enter_context(_raw())
        threading.Thread(target=_type, args=(shell, woken, on_terminal), name="typing", daemon=True).start()
        for stream, data in shell:
            _print(stream, data)
        assert shell.exit_code is not None, "else it raises"
        return shell.exit_code


def _print(stream: int, data: bytes) -> None:
    """Writes everything, at once."""
    while data:
        data = data[os.write(stream, data) :]


def _type(shell: Shell, woken: int, on_terminal: bool) -> None:
    """Sends input, and the terminal's size when it changes; to the end of the program."""
    sources = [STDIN, woken]
    with contextlib.suppress(BerthError, OSError):  # whoever reads the output hears of it as well
        while True:
            ready, _, _ = select.select(sources, [], [])
            if woken in ready:
                os.read(woken, 512)
                columns, rows = _size()
                shell.resize(rows, columns)
            if STDIN in ready:
                data = os.read(STDIN, PIECE)
                if data:
                    shell.write(data)
                    continue
                sources.remove(STDIN)
                if on_terminal:
                    shell.write(b"\x04")
                else:
                    shell.finish()


def _size() -> tuple[int, int]:
    """(columns, rows) of the terminal as it is now, whatever the environment says."""
    try:
        return os.get_terminal_size(STDOUT)
    except OSError:
        return shutil.get_terminal_size()


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    """Passes every key to the program; restores the terminal afterwards, however this ends."""
    import termios  # here, so that the rest of the command runs where there are no such terminals
    import tty

    before = termios.tcgetattr(STDIN)
    try:
        tty.setraw(STDIN, termios.TCSADRAIN)  # what was typed already is kept
        yield
    finally:
        termios.tcsetattr(STDIN, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _signals(on_terminal: bool) -> Iterator[int]:
    """Unwinds this command on signals that end it; gives a descriptor that becomes readable when the terminal's size
    changes."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    before = {number: signal.signal(number, _leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    if on_terminal:
        before[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    try:
        yield woken
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, _frame: object) -> NoReturn:
    sys.exit(128 + number)
