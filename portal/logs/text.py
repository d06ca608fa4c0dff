"""Decodes log records to text and to messages for browsers."""

from __future__ import annotations

import codecs
import time
from collections.abc import Iterable

import msgspec

from portal.logs.records import Row, Run, lost, rows_told

NS_PER_MS = 1_000_000


class TextDecoder:
    """Incremental UTF-8 decoder per stream: a character split over two records comes with the second one."""

    def __init__(self) -> None:
        self._decoders: dict[int, codecs.IncrementalDecoder] = {}

    def decode(self, stream: int, payload: bytes) -> str:
        """The text of a record's payload; invalid UTF-8 becomes U+FFFD."""
        decoder = self._decoders.get(stream)
        if decoder is None:
            decoder = self._decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
        return decoder.decode(payload)

    def copy(self) -> TextDecoder:
        """A copy that continues from the same state."""
        other = TextDecoder()
        for stream, decoder in self._decoders.items():
            other._decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
            other._decoders[stream].setstate(decoder.getstate())
        return other


def text_rows(run: Run, decoder: TextDecoder, *, expected: int | None = None) -> list[tuple[int, int, str]]:
    """(time in ms, stream, text) of each record. ``expected``: the offset asked for; if the run begins beyond it, a
    line says how much is missing."""
    return decoded(rows_told(run, run.start if expected is None else expected), decoder)


def decoded(rows: Iterable[Row], decoder: TextDecoder) -> list[tuple[int, int, str]]:
    """(time in ms, stream, text) of each row."""
    decode = decoder.decode
    return [(time_ns // NS_PER_MS, stream, decode(stream, payload)) for time_ns, stream, payload in rows]


def lost_row(size: int) -> tuple[int, int, str]:
    """The same for so many bytes lost at a log's end, with the present time."""
    time_ns, stream, payload = lost(time.time_ns(), size)
    return time_ns // NS_PER_MS, stream, payload.decode()


def records_message(run: Run, decoder: TextDecoder, *, expected: int) -> str:
    """JSON ``{"type": "records", "from": …, "to": …, "records": [[time in ms, stream, text], …]}``.

    ``expected``: the offset asked for; if the run begins beyond it, a line says how much is missing.
    """
    return rows_message(min(run.start, expected), run.end, text_rows(run, decoder, expected=expected))


def lost_message(start: int, end: int) -> str:
    """The same for the lost last bytes of a log."""
    return rows_message(start, end, [lost_row(end - start)])


def tail_message(rows: list[tuple[int, int, str]]) -> str:
    """JSON ``{"type": "tail", "records": …}`` of unfinished lines."""
    return msgspec.json.encode({"type": "tail", "records": rows}).decode()


def rows_message(start: int, end: int, rows: list[tuple[int, int, str]]) -> str:
    """``records_message`` for decoded rows."""
    return msgspec.json.encode({"type": "records", "from": start, "to": end, "records": rows}).decode()
