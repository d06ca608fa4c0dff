"""Problems of a job file, as data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Path = tuple[str | int, ...]
"""Keys and list positions from the top of the file."""

MAX_PROBLEMS = 100
MAX_MESSAGE = 1_000
"""Maximum characters of a path or message."""
MAX_NAME = 80
"""Maximum characters of a quoted name: names in a refused file may be of any length."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to change.

    `path` such as `taskRoles.train.resourcePerInstance.gpu` ("" is the whole file), `message` a sentence with the
    number and the limit, `code` a stable word for programs, `line` counted from 1 if known. Path and message are cut at
    `MAX_MESSAGE` characters.
    """

    path: str
    message: str
    code: str
    line: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", short(self.path, MAX_MESSAGE))
        object.__setattr__(self, "message", short(self.message, MAX_MESSAGE))

    def __str__(self) -> str:
        line = "" if self.line is None else f" (line {self.line})"
        return f"{self.path or 'job file'}{line}: {self.message}"


class SpecInvalid(Exception):
    """The job file is refused; `problems` holds every reason, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        found = tuple(problems)
        self.problems = found[:MAX_PROBLEMS] + _rest(len(found) - MAX_PROBLEMS)
        super().__init__("; ".join(str(problem) for problem in self.problems[:3]))


def _rest(number: int) -> tuple[Problem, ...]:
    return (Problem("", f"and {number} more problems", "more"),) if number > 0 else ()


def path_text(path: Path) -> str:
    """`("taskRoles", "train", "commands", 0)` as `taskRoles.train.commands[0]`; a key that is not a plain word is
    quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + _key_text(part)
    return text


def short(name: str, most: int = MAX_NAME) -> str:
    """A text of the file for use in a sentence, cut at `most` characters."""
    return name if len(name) <= most else name[: most - 3] + "..."


def _key_text(key: str) -> str:
    shown = short(key)
    plain = shown.replace("_", "a").replace("-", "a").isalnum()
    return shown if plain else '"' + shown.replace('"', '\\"') + '"'
