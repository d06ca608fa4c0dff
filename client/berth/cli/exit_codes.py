"""Error messages of the command, and its exit codes, which follow sysexits(3) where they can: a job's own exit code,
which `--follow` passes on, is seldom one of these."""

from __future__ import annotations

from berth.cli.screen import clean
from berth.errors import (
    BadAnswer,
    BerthError,
    Conflict,
    LogIncomplete,
    Misused,
    NotAllowed,
    NotFound,
    NotSignedIn,
    NotValid,
    Problem,
    ServerFault,
    ShellLost,
    TlsFailed,
    TooMany,
    Unreachable,
)

REFUSED = 1
NOT_VALID = 65
INCOMPLETE = 74
INTERRUPTED = 130

# Kinds from the special to the general: code, and what to do about it.
ANSWERS: tuple[tuple[type[BerthError], int, str], ...] = (
    (NotValid, NOT_VALID, ""),
    (NotFound, 66, "See `berth ls` for what there is."),
    (Unreachable, 69, "Is the address right and the server up?"),
    (ShellLost, 69, ""),
    (ServerFault, 70, "Try again later; an administrator finds more in the portal's log."),
    (BadAnswer, 70, ""),
    (LogIncomplete, INCOMPLETE, "Later: berth logs"),
    (TooMany, 75, ""),
    (NotSignedIn, 77, "Sign in again: berth login"),
    (NotAllowed, 77, ""),
    (Misused, 78, ""),
    (Conflict, REFUSED, ""),
    (BerthError, REFUSED, ""),
)


def error_text(error: BerthError) -> tuple[str, int]:
    """The lines for standard error, and the exit code."""
    code, advice = next((code, advice) for kind, code, advice in ANSWERS if isinstance(error, kind))
    advice = error.cure if isinstance(error, TlsFailed) else advice
    sentence = clean(str(error))
    lines = [f"berth: {sentence}{'' if sentence.endswith(('.', '?', '!')) else '.'} {advice}".rstrip()]
    if isinstance(error, Problem):
        if len(error.errors) == 1 and error.errors[0].message in error.detail:
            lines = [f"berth: {location(error.errors[0].path, error.errors[0].line)}{sentence}"]
        elif error.errors:
            lines = [f"berth: refused for {len(error.errors)} reasons:"]
            lines += [f"  {location(one.path, one.line)}{clean(one.message)}" for one in error.errors]
    return "\n".join(lines), code


def location(path: str, line: int | None) -> str:
    """Where in a file something is wrong, as a prefix."""
    where = clean(path) + (f" (line {line})" if line else "")
    return f"{where}: " if where else ""
