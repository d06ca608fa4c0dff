"""Programs of the project that this very process plays for a shell: without the start of Python and its imports, which
are most of what a short command takes."""

from __future__ import annotations

import io
import json
import os
import socketserver
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from tests.support.people.shell import ROOT
from tests.support.services.forked_berth import forked_berth

ENTRY = """#!{python} -IS
import json, os, socket, sys
typed = "" if sys.stdin.isatty() else sys.stdin.read()
with socket.socket(socket.AF_UNIX) as way:
    way.connect({way!r})
    asked = {{"program": {name!r}, "words": sys.argv[1:], "folder": os.getcwd(), "typed": typed}}
    way.sendall(json.dumps({{**asked, "environment": dict(os.environ)}}).encode())
    way.shutdown(socket.SHUT_WR)
    status, out, errors = json.load(way.makefile())
sys.stdout.write(out)
sys.stderr.write(errors)
sys.exit(status)
"""


@dataclass(frozen=True)
class Call:
    """How a program was called; `typed` is its standard input."""

    words: list[str]
    folder: Path
    environment: dict[str, str]
    typed: str


Done = tuple[int, str, str]
"""Exit status, output, errors."""
Program = Callable[[Call], Done]


class Stage:
    """In `folder` lies an executable of each name, until it is closed; `play` is what makes them do anything."""

    def __init__(self, programs: Mapping[str, Program], folder: Path) -> None:
        self.programs = dict(programs)
        self._asked: Queue[tuple[dict[str, Any], Queue[Done]]] = Queue()
        # Not in the test's own folder: the address of a socket is at most 107 bytes long.
        self._short = tempfile.TemporaryDirectory(prefix="berth-played-")
        way = f"{self._short.name}/way"
        self._server = socketserver.ThreadingUnixStreamServer(way, self._door())
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        for name in programs:
            (folder / name).write_text(ENTRY.format(python=sys.executable, way=way, name=name))
            (folder / name).chmod(0o755)

    def play(self, ended: Callable[[], bool]) -> None:
        """Do what is asked, in the caller's thread, which has the test's connection to the database, until `ended`."""
        while not ended():
            with suppress(Empty):
                asked, answer = self._asked.get(timeout=0.01)
                answer.put(self._done(asked))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._short.cleanup()

    def _done(self, asked: dict[str, Any]) -> Done:
        name, folder = asked.pop("program"), Path(asked.pop("folder"))
        try:
            return self.programs[name](Call(folder=folder, **asked))
        except Exception as error:  # noqa: BLE001 - told to the shell, which ends with it
            return 99, "", f"{name} in the tests' process: {error!r}\n"

    def _door(self) -> type[socketserver.BaseRequestHandler]:
        ask = self._asked.put

        class Door(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                answer: Queue[Done] = Queue()
                ask((json.load(self.rfile), answer))
                self.wfile.write(json.dumps(answer.get()).encode())

        return Door


def berth(call: Call) -> Done:
    """The `berth` command."""
    environment = call.environment | {"PYTHONPATH": str(ROOT / "client"), "COLUMNS": "200", "NO_PROXY": "127.0.0.1"}
    return forked_berth().run(tuple(call.words), call.folder, environment, call.typed)


def manage(call: Call) -> Done:
    """`manage.py` on the database of the tests."""
    from django.core.management import CommandError, call_command

    out, errors, status = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(errors), chdir(call.folder), _standing_in(call):
        try:
            call_command(*call.words)
        except CommandError as error:
            status = error.returncode
            print(f"CommandError: {error}", file=errors)
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 1
    return status, out.getvalue(), errors.getvalue()


@contextmanager
def _standing_in(call: Call) -> Iterator[None]:
    """What the command finds as its environment and its standard input."""
    before, stdin = dict(os.environ), sys.stdin
    os.environ.update(call.environment)
    sys.stdin = io.StringIO(call.typed)
    try:
        yield
    finally:
        sys.stdin = stdin
        os.environ.clear()
        os.environ.update(before)
