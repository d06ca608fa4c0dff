"""Records as text for people."""

from __future__ import annotations

import codecs
import json

from nodes.protocol import MARK, LogRecord
from portal.jobs.logs.records import Run

NS_PER_MS = 1_000_000


class TextDecoder:
    """UTF-8 by stream: a character split over two records comes with the second one."""

    def __init__(self) -> None:
        self._decoders: dict[int, codecs.IncrementalDecoder] = {}

    def decode(self, record: LogRecord) -> str:
        """The record's text; what is no UTF-8 becomes U+FFFD."""
        decoder = self._decoders.get(record.stream)
        if decoder is None:
            decoder = self._decoders[record.stream] = codecs.getincrementaldecoder("utf-8")("replace")
        return decoder.decode(record.payload)

    def copy(self) -> TextDecoder:
        """One that goes on from the same place."""
        other = TextDecoder()
        for stream, decoder in self._decoders.items():
            other._decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
            other._decoders[stream].setstate(decoder.getstate())
        return other


def records_message(run: Run, decoder: TextDecoder, *, expected: int) -> str:
    """``{"type": "records", "from": …, "to": …, "records": [[time in ms, stream, text], …]}`` as JSON.

    ``expected``: the offset asked for; where the run begins beyond it, a line says how much is missing.
    """
    rows: list[tuple[int, int, str]] = []
    for record in run.records():
        rows.append((record.time_ns // NS_PER_MS, record.stream, decoder.decode(record)))
    if run.start > expected:
        rows.insert(0, (rows[0][0], MARK, f"… {run.start - expected} bytes of this log are lost\n"))
    message = {"type": "records", "from": min(run.start, expected), "to": run.end, "records": rows}
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))
