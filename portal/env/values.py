"""Typed reading of the environment. A bad value stops the start with one sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

Value = TypeVar("Value")

PERIODS = {"s": 1, "min": 60, "hour": 3600, "day": 86_400}
MOST = 1_000_000_000
"""Of a number for which nothing else is said: seconds and counts beyond it cannot be reckoned with."""
HUNDRED_YEARS_D = 36_500
TRUE, FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")


class BadSetting(SystemExit):
    """A setting that cannot be used; its text names the variable, the value and what is allowed."""


def read(name: str, default: Value, convert: Callable[[str], Value], allowed: str) -> Value:
    """The variable as ``convert`` has it, or the default where it is not set. ``convert`` raises ValueError for what
    is not ``allowed``."""
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

    return read(name, default, convert, "one of 1, 0, true, false, yes, no, on, off")


def env_int(name: str, default: int, *, least: int = 0, most: int = MOST) -> int:
    """A whole number from ``least`` to ``most``."""

    def convert(text: str) -> int:
        number = int(text)
        if not least <= number <= most:
            raise ValueError(text)
        return number

    return read(name, default, convert, f"a whole number from {least} to {most}")


def env_word(name: str, default: str, allowed: Collection[str]) -> str:
    """One of the ``allowed`` words."""

    def convert(text: str) -> str:
        if text not in allowed:
            raise ValueError(text)
        return text

    return read(name, default, convert, f"one of {', '.join(allowed)}")


def env_name(name: str, default: str) -> str:
    """What servers and their containers are labelled with: as the agent takes it."""

    def convert(text: str) -> str:
        if not _NAME.fullmatch(text):
            raise ValueError(text)
        return text

    return read(name, default, convert, "a name of small letters, digits, dots and dashes, at most 63")


def env_filled(name: str, default: str) -> str:
    """A text that is not empty."""

    def convert(text: str) -> str:
        if not text:
            raise ValueError(text)
        return text

    return read(name, default, convert, "a word; unset it for its default")


def env_level(name: str, default: str) -> str:
    """A level of the log, in large or small letters."""

    def convert(text: str) -> str:
        if text.upper() not in _LEVELS:
            raise ValueError(text)
        return text.upper()

    return read(name, default, convert, f"one of {', '.join(_LEVELS)}")


def env_time_zone(name: str, default: str) -> str:
    """A time zone of the system's or tzdata's, by its name."""

    def convert(text: str) -> str:
        try:
            ZoneInfo(text)
        except (LookupError, OSError, ValueError):
            raise ValueError(text) from None
        return text

    return read(name, default, convert, "the name of a time zone, such as UTC or Europe/Berlin")


def env_list(name: str, default: list[str]) -> list[str]:
    """Comma-separated words."""
    text = os.environ.get(name)
    return default if text is None else [word.strip() for word in text.split(",") if word.strip()]


def env_path(name: str, default: Path) -> Path:
    """An absolute path; ``~`` and relative ones are resolved from where the process starts."""
    text = os.environ.get(name)
    try:
        return Path(text or default).expanduser().resolve()
    except (OSError, RuntimeError) as error:
        raise BadSetting(f"{name}={text!r}: must be a path ({error}).") from None


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
    except UnicodeDecodeError:
        raise BadSetting(f"{name}_FILE={path!r}: is no text in UTF-8.") from None


def env_rate(name: str, default: str) -> tuple[int, int]:
    """A count per time, such as ``10/min``, as (count, seconds)."""

    def convert(text: str) -> tuple[int, int]:
        count, _, period = text.partition("/")
        if not 1 <= int(count) <= MOST or period not in PERIODS:
            raise ValueError(text)
        return int(count), PERIODS[period]

    allowed = f"a count per {', '.join(PERIODS)}, such as {default}"
    return read(name, convert(default), convert, allowed)
