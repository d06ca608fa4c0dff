"""The log of the embedded stack, ``stack.log``. One process writes it, to which the others' output comes by pipes."""

from __future__ import annotations

import io
import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

MOST = 50_000_000
"""Bytes of each of its two files: some weeks of a stack that is used."""


class _File(RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:
        """A line for which the disk has no room is lost; the stack runs on."""


class StackLog(io.TextIOBase):
    """What is printed to it. Before a line that would make the file larger than ``most``, what it holds becomes
    ``stack.log.1``, in place of what that was."""

    def __init__(self, path: Path, most: int = MOST) -> None:
        self._file = _File(path, maxBytes=most, backupCount=1, encoding="utf-8")

    def write(self, text: str) -> int:
        """One line; ``print`` gives its end by itself."""
        if line := text.rstrip("\n"):
            self._file.emit(logging.makeLogRecord({"msg": line}))
        return len(text)

    def close(self) -> None:
        self._file.close()
        super().close()
