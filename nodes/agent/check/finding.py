"""One finding of ``berth-node check``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How serious a finding is."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the result. ``text``: what was found; ``cure``: what to do about it, empty where there is nothing to
    do."""

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
