"""Our own log: what others wrote stands in it as text."""

from __future__ import annotations

import logging

from portal.common.logging import line_formatter

FORGED = "no room\n2026-03-01T12:00:00Z [warning  ] all is well [portal]\r\x1b[2J\x9b1m\u2028"


def written(**entry: object) -> str:
    return line_formatter().format(logging.makeLogRecord({"name": "portal", "levelname": "WARNING", **entry}))


def test_what_a_server_told_begins_no_line_and_steers_no_terminal() -> None:
    line = written(msg="the folder of job %s could not be deleted: %s", args=(7, FORGED))
    assert line.isprintable()
    assert r"deleted: no room\n2026-03-01T12:00:00Z [warning  ] all is well [portal]\r\x1b[2J" in line


def test_a_traceback_keeps_its_lines() -> None:
    try:
        raise ValueError(FORGED)
    except ValueError as error:
        text = written(msg="failed", exc_info=(type(error), error, error.__traceback__))
    assert text.count("\n") > 3
    assert text.replace("\n", "").isprintable()
