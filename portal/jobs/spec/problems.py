"""What can be wrong with a job file, as data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Path = tuple[str | int, ...]
"""Keys and list positions from the top of the file."""

MAX_PROBLEMS = 100


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to change.

    `path` such as `taskRoles.train.resourcePerInstance.gpu` ("" is the whole file), `message` a sentence
    with the number and the limit, `code` a stable word for programs, `line` counted from 1 where known.
    """

    path: str
    message: str
    code: str
    line: int | None = None

    def __str__(self) -> str:
        line = "" if self.line is None else f" (line {self.line})"
        return f"{self.path or 'job file'}{line}: {self.message}"


class SpecInvalid(Exception):
    """The job file cannot be accepted; `problems` holds every reason, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        found = tuple(problems)
        self.problems = found[:MAX_PROBLEMS] + _rest(len(found) - MAX_PROBLEMS)
        super().__init__("; ".join(str(problem) for problem in self.problems[:3]))


def _rest(number: int) -> tuple[Problem, ...]:
    return (Problem("", f"and {number} more problems", "more"),) if number > 0 else ()


def path_text(path: Path) -> str:
    """`("taskRoles", "train", "commands", 0)` as `taskRoles.train.commands[0]`; a key that is not a plain
    word is quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + _key_text(part)
    return text


def _key_text(key: str) -> str:
    short = key if len(key) <= 80 else key[:77] + "..."
    plain = short.replace("_", "a").replace("-", "a").isalnum()
    return short if plain else '"' + short.replace('"', '\\"') + '"'
