"""What a job writes on its way to a terminal: colours pass, and nothing else that steers one."""

from __future__ import annotations

import sys
import tracemalloc
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.cli.follow import LONGEST_LINE, PlainOutput, PrefixedOutput
from berth.cli.screen import clean, memory, span, table, when
from berth.cli.terminal import LONGEST, PLAIN, TerminalFilter
from berth.model.jobs import MARK, LogRecord

HARMLESS = {
    "plain text": "line 1\nline 2\ttabbed\n",
    "a progress bar": "10 %\r20 %\r",
    "colours": "\x1b[1;31mred\x1b[0m \x1b[38;5;208morange\x1b[38:2::1:2:3mrgb\x1b[m",
    "other scripts": "Größe 大小 🚀 é",
}
HOSTILE = {
    "clears the screen": ("a\x1b[2Jb\x1b[Hc", "abc"),
    "moves the cursor": ("a\x1b[3A\x1b[10;10fb", "ab"),
    "sets the title": ("a\x1b]0;owned\x07b\x1b]2;x\x1b\\c", "abc"),
    "writes the clipboard": ("a\x1b]52;c;cm0gLXJm\x07b", "ab"),
    "is a link": ("\x1b]8;;http://evil\x1b\\text\x1b]8;;\x1b\\", "text"),
    "asks the terminal": ("a\x1b[6n\x1b[c\x1bZb", "ab"),
    "device control": ("a\x1bP$qm\x1b\\b\x1b_x\x1b\\c\x1b^y\x1b\\d", "abcd"),
    "eight bits": ("a\x9b2Jb\x9d0;t\x9cc\x85d", "abcd"),
    "other control characters": ("a\x07\x08\x00\x0e\x7fb", "ab"),
    "turns the direction of text": ("a\u202egnp.exe\u2066b", "agnp.exeb"),
    "switches the screen": ("\x1b[?1049h\x1b[?25la\x1b(0b\x1bcc", "abc"),
    "a sequence in a sequence": ("a\x1b[\x1b[2Jb\x1b\x1b[2Jc", "abc"),
    "an endless title": ("a\x1b]0;" + "x" * 5000 + "b", "a0;" + "x" * 5000 + "b"),
}


@pytest.mark.parametrize("case", HARMLESS)
def test_what_is_harmless_passes_as_it_is(case: str) -> None:
    assert TerminalFilter().feed(HARMLESS[case]) == HARMLESS[case]


@pytest.mark.parametrize("case", HOSTILE)
def test_what_steers_a_terminal_is_swallowed(case: str) -> None:
    text, shown = HOSTILE[case]
    assert TerminalFilter().feed(text) == shown


@pytest.mark.parametrize("case", [*HOSTILE, *HARMLESS])
def test_cut_anywhere_it_comes_out_the_same(case: str) -> None:
    text, shown = HOSTILE.get(case) or (HARMLESS[case], HARMLESS[case])
    for at in range(0, len(text), max(1, len(text) // 200)):
        screen = TerminalFilter()
        assert screen.feed(text[:at]) + screen.feed(text[at:]) == shown


@given(st.lists(st.text(alphabet="\x1b[]0;2Jm\x07\\P\x9b\x9d\x9c?ab\n\r\t\x08")))
def test_no_control_character_but_those_of_colours_and_lines_ever_passes(pieces: list[str]) -> None:
    screen = TerminalFilter()
    shown = "".join(map(screen.feed, pieces)) + screen.end()
    assert not set("\x07\x08\x9b\x9d\x9c") & set(shown)
    assert all(part[:1] == "[" and "m" in part for part in shown.split("\x1b")[1:])


def test_a_sequence_without_end_is_held_back_no_longer_than_a_few_thousand_characters() -> None:
    screen = TerminalFilter()
    screen.feed("\x1b]0;")
    shown = "".join(screen.feed("x" * 100) for _ in range(100))
    assert len(shown) > 10_000 - 2 * LONGEST


def test_colours_end_with_the_log() -> None:
    screen = TerminalFilter()
    screen.feed("\x1b[31mred")
    assert screen.end() == PLAIN
    assert TerminalFilter().end() == ""


def test_names_are_shown_on_one_line_with_what_is_hostile_made_visible() -> None:
    assert clean("a\nb\x1b[2J\u202e[red]\x9b") == "a b\\x1b[2J\\u202e[red]\\x9b"
    shown = table(("JOB", ">GPUS"), [("[bold]x[/]", 3)])
    assert [str(cell) for cell in shown.columns[0].cells] == ["[bold]x[/]"]


def test_amounts_and_times_are_short() -> None:
    assert [span(seconds) for seconds in (-1, 0, 59, 60, 3661, 90_000)] == [
        "0s",
        "0s",
        "59s",
        "1m 0s",
        "1h 1m",
        "1d 1h",
    ]
    assert [memory(amount) for amount in (512, 1024, 1536, 65536)] == ["512M", "1G", "1.5G", "64G"]
    now = datetime.now(UTC)
    assert len(when(now, now=now)) == 5
    assert when(now - timedelta(days=3), now=now).startswith("20")


def test_a_progress_bar_among_other_tasks_needs_the_memory_of_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = PrefixedOutput("worker/0", raw=True)
    bar = [f"\r{step:6d}it [00:00, loss=0.123456789]{'#' * 60}" for step in range(3000)]
    tracemalloc.start()
    try:
        for text in bar:
            lines.take(LogRecord(0, 2, text))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    lines.end()
    assert capsys.readouterr().out == f"[worker/0] {bar[-1][1:]}\n"
    assert held < 20_000


@pytest.mark.parametrize(
    ("pieces", "printed"),
    [
        (["10 %\r", "20 %\r", "30 %\n"], ["30 %"]),
        (["10 %\r", "20 %", "\r"], ["20 %"]),
        (["done\r", "\r", "\r", "\n", "next\r\n"], ["done", "next"]),
        (["half ", "a line\nand\rmore"], ["half a line", "more"]),
        (["\r", "\r"], [""]),
        (["x" * (LONGEST_LINE + 1), "y\n"], ["x" * LONGEST_LINE, "xy"]),
        (["x" * (2 * LONGEST_LINE + 1)], ["x" * LONGEST_LINE, "x" * LONGEST_LINE, "x"]),
    ],
)
def test_lines_among_those_of_other_tasks_are_whole_and_of_what_was_written_over_the_last(
    pieces: list[str], printed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = PrefixedOutput("worker/0", raw=True)
    for text in pieces:
        lines.take(LogRecord(0, 1, text))
    lines.end()
    assert capsys.readouterr().out == "".join(f"[worker/0] {line}\n" for line in printed)


@pytest.mark.parametrize("terminal", [True, False])
def test_what_has_no_end_yet_is_shown_in_one_row_of_a_terminal_until_something_else_comes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "11")
    stream = PlainOutput(raw=False)
    stream.tail([LogRecord(0, 1, "\r 10%|#"), LogRecord(0, 2, "\x1b]0;title\x07loading")])
    stream.tail([LogRecord(0, 1, "\r 20%|##")])
    stream.take(LogRecord(0, 1, "\r 10%|#\r100%|##########\n"))
    stream.tail([LogRecord(0, 1, "last")])
    stream.end()
    shown = capsys.readouterr().out
    whole = "\r 10%|#\r100%|##########\n"
    assert shown == (f" 10%|# \\x1\r\x1b[K 20%|##\r\x1b[K{whole}last\r\x1b[K" if terminal else whole)


def test_a_line_of_berth_stands_on_a_line_of_its_own_among_other_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    lines = PrefixedOutput("worker/0", raw=True)
    lines.take(LogRecord(0, 1, "begun"))
    lines.take(LogRecord(0, MARK, "… 7 bytes of this log are lost\n"))
    assert capsys.readouterr().out == "[worker/0] begun\n[worker/0] … 7 bytes of this log are lost\n"


def test_a_colour_that_is_cut_by_records_stays_one_among_other_tasks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    lines = PrefixedOutput("worker/0", raw=False)
    for text in ("one\n\x1b[3", "1mred\n\x1b]0;ti", "tle\x07plain\n"):
        lines.take(LogRecord(0, 1, text))
    lines.end()
    told = capsys.readouterr().out.replace("\x1b[0m", "").splitlines()
    assert told == ["[worker/0] one", "[worker/0] \x1b[31mred", "[worker/0] plain"]
