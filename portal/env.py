"""Typed reading of the environment. A bad value stops the start with one sentence."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")

PERIODS = {"s": 1, "min": 60, "hour": 3600, "day": 86_400}
TRUE, FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}


class BadSetting(SystemExit):
    """A setting that cannot be used; its text names the variable, the value and what is allowed."""


def _read(name: str, default: Value, convert: Callable[[str], Value], allowed: str) -> Value:
    text = os.environ.get(name)
    if text is None:
        return default
    try:
        return convert(text.strip())
    except ValueError:
        raise BadSetting(f"{name}={text!r}: must be {allowed}.") from None


def env_str(name: str, default: str) -> str:
    """The variable's text, or the default where it is not set."""
    return os.environ.get(name, default)


def env_bool(name: str, default: bool) -> bool:
    """1/true/yes/on or 0/false/no/off."""

    def convert(text: str) -> bool:
        lowered = text.lower()
        if lowered in TRUE | FALSE:
            return lowered in TRUE
        raise ValueError(text)

    return _read(name, default, convert, "one of 1, 0, true, false, yes, no, on, off")


def env_int(name: str, default: int, *, least: int = 0) -> int:
    """A whole number not below ``least``."""

    def convert(text: str) -> int:
        number = int(text)
        if number < least:
            raise ValueError(text)
        return number

    return _read(name, default, convert, f"a whole number, at least {least}")


def env_word(name: str, default: str, allowed: Collection[str]) -> str:
    """One of the ``allowed`` words."""

    def convert(text: str) -> str:
        if text not in allowed:
            raise ValueError(text)
        return text

    return _read(name, default, convert, f"one of {', '.join(allowed)}")


def env_list(name: str, default: list[str]) -> list[str]:
    """Comma-separated words."""
    text = os.environ.get(name)
    return default if text is None else [word.strip() for word in text.split(",") if word.strip()]


def env_path(name: str, default: Path) -> Path:
    """An absolute path; ``~`` and relative ones are resolved from where the process starts."""
    return Path(os.environ.get(name) or default).expanduser().resolve()


def env_secret(name: str) -> str | None:
    """The variable, or the content of the file that its ``_FILE`` twin names, or None."""
    if name in os.environ:
        return os.environ[name]
    path = os.environ.get(f"{name}_FILE")
    if path is None:
        return None
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise BadSetting(f"{name}_FILE={path!r}: cannot be read ({error.strerror}).") from None


def env_rate(name: str, default: str) -> tuple[int, int]:
    """A count per time, such as ``10/min``, as (count, seconds)."""

    def convert(text: str) -> tuple[int, int]:
        count, _, period = text.partition("/")
        if int(count) < 1 or period not in PERIODS:
            raise ValueError(text)
        return int(count), PERIODS[period]

    allowed = f"a count per {', '.join(PERIODS)}, such as {default}"
    return _read(name, convert(default), convert, allowed)
