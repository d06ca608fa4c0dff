"""Somebody who reads a page of the documentation and types its commands, as they stand there, at a terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from tests.support.cluster.played import Program, Stage, berth
from tests.support.people.documents import NOT_RUN, commands

SCRIPTS = {
    # Ends with an error where the portal refuses.
    "curl": "exec /usr/bin/curl --fail-with-body --noproxy '*' \"$@\"",
    "sudo": 'exec "$@"',
    "../.venv/bin/python": f'[ "$1" = manage.py ] && exec "$@"\nexec {sys.executable} "$@"',
}
ALTERING = ("apt-get", "docker", "npm", "pip", "pipx", "systemctl", "uv")
"""Programs that would alter the machine on which tests run: a test has to give its reader one of its own."""
SYSTEM = re.compile(r"(?<![\w.-])(/(boot|etc|home|lib|opt|root|usr|var)\b|~)[^\s\"']*")
NOTHING: Mapping[str, str] = {}


class Reader:
    """A home folder, in which `.bin` is looked into for programs before the machine's own. Nothing outside of it is
    altered: what a page says of the system's folders has to be put elsewhere by the test's words."""

    def __init__(self, folder: Path, stage: Stage, environment: Mapping[str, str]) -> None:
        self.folder, self.bin = folder, folder / ".bin"
        self._stage = stage
        for name, text in SCRIPTS.items():
            self.program(name, text)
        for name in ALTERING:
            self.program(name, f'echo "{name}: this reader has none" >&2; exit 127')
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("BERTH_", "XDG_"))}
        self.environment = {**plain, "NO_PROXY": "127.0.0.1", **environment}

    def program(self, name: str, text: str) -> None:
        """Give the reader a program: a script of a shell."""
        path = self.bin / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def section(
        self,
        page: str,
        heading: str,
        *,
        words: Mapping[str, str] = NOTHING,
        instead: Mapping[str, str] = NOTHING,
        before: Mapping[str, str] = NOTHING,
        typed: Mapping[str, str] = NOTHING,
        statuses: Mapping[str, int] | None = None,
        deadline_s: float = 120,
    ) -> dict[str, str]:
        """Type every command below a heading of a page into one shell; what each printed, by the command as it stands
        there.

        `words` are what the page leaves to its reader, with what is put there; `instead` are commands that are typed
        otherwise; `before` is what happens before a command; `typed` what is typed into it; `statuses` are exit
        statuses other than 0. Raises AssertionError for what ends otherwise, and for what of these is never met.
        """
        asked = [one for one in commands(page, heading) if (page, one) not in NOT_RUN]
        statuses = statuses or {}
        unmet = {*instead, *before, *typed, *statuses} - {*asked}
        assert not unmet, f"{page} has no such commands below {heading!r}: {unmet}"
        lines = [instead.get(one, one) for one in asked]
        idle = [word for word in words if not any(word in line for line in lines)]
        assert not idle, f"{page} leaves no {idle} to its reader below {heading!r}"
        own = dict.fromkeys(words, "OWN")
        touched = [found[0] for one in asked if one not in instead for found in SYSTEM.finditer(filled(one, own))]
        assert not touched, f"{page} names {touched} of the machine below {heading!r}: say where these are to be"
        notes = self.folder / ".notes"
        notes.mkdir(exist_ok=True)
        script = []
        for number, (command, line) in enumerate(zip(asked, lines, strict=True)):
            (notes / f"{number}.in").write_text(typed.get(command, ""))
            into = f"<{notes}/{number}.in >{notes}/{number}.out 2>{notes}/{number}.errors"
            if command in before:
                script.append(f"{{\n{filled(before[command], words)}\n}} </dev/null >{notes}/{number}.before 2>&1")
            script.append(f"{{\n{filled(line, words)}\n}} {into}")
            script.append(f"[ $? = {statuses.get(command, 0)} ] || exit {100 + number}")
        status, complaints = self._type("\n".join(script), deadline_s)
        if status or complaints:
            said = [(path.name, path.read_text()[-2000:]) for path in sorted(notes.glob(f"{status - 100}.*"))]
            command = asked[status - 100] if 100 <= status < 100 + len(asked) else ""
            raise AssertionError(f"{page}, {heading}: exit {status}\n{command}\n{said}\n{complaints}")
        return {command: (notes / f"{number}.out").read_text() for number, command in enumerate(asked)}

    def complaint(self, number: int) -> str:
        """What the last section's command of that number, from 0, wrote to its standard error."""
        return (self.folder / ".notes" / f"{number}.errors").read_text()

    def _type(self, script: str, deadline_s: float) -> tuple[int, str]:
        """The shell's exit status, and what it complains of itself."""
        ends = time.monotonic() + deadline_s
        home = {"HOME": str(self.folder), "PATH": f"{self.bin}:{os.environ['PATH']}"}
        with subprocess.Popen(
            ["bash", "-uo", "pipefail", "-c", script],
            cwd=self.folder, env={**self.environment, **home}, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        ) as shell:  # fmt: skip
            self._stage.play(lambda: shell.poll() is not None or time.monotonic() > ends)
            if shell.poll() is None:
                os.killpg(shell.pid, 9)
            assert shell.stderr
            return shell.wait(), shell.stderr.read()


def filled(command: str, words: Mapping[str, str]) -> str:
    """The command with the reader's own words: names where they stand alone, others wherever they are."""
    for word, own in words.items():
        found = rf"(?<![\w-]){word}(?![\w-])" if re.fullmatch(r"\w+", word) else re.escape(word)
        command = re.sub(found, lambda _, own=own: own, command)  # type: ignore[misc]
    return command


@contextmanager
def reader_of(
    folder: Path, environment: Mapping[str, str] = NOTHING, programs: Mapping[str, Program] | None = None
) -> Iterator[Reader]:
    """A reader who has `berth` and these programs."""
    (folder / ".bin").mkdir()
    with closing(Stage({"berth": berth, **(programs or {})}, folder / ".bin")) as stage:
        yield Reader(folder, stage, environment)
