"""One line of what ``berth-node check`` finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a thing is."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """``text``: what was found; ``cure``: what to do about it, empty where nothing is to be done."""

    name: str
    verdict: Verdict
    text: str
    cure: str = ""


def ok(name: str, text: str) -> Finding:
    return Finding(name, Verdict.OK, text)


def warning(name: str, text: str, cure: str) -> Finding:
    return Finding(name, Verdict.WARNING, text, cure)


def failed(name: str, text: str, cure: str) -> Finding:
    return Finding(name, Verdict.FAILED, text, cure)
