"""Filter for a job's output on a terminal: colours pass, every other control sequence is removed."""

from __future__ import annotations

import re

ESCAPE = re.compile(
    r"""
    \x1b\[ [0-9;:]{0,64} m                       (?# colours and weights: the one that passes)
    | (?P<gone>
        (?: \x1b\[ | \x9b ) [0-?]* [ -/]* [@-~]   (?# other CSI sequences: cursor, screen, modes)
      | (?: \x1b[\]PX^_] | [\x90\x98\x9d-\x9f] ) [^\x07\x1b\x9c]{0,4096} (?: \x07 | \x9c | \x1b\\ )  (?# titles, links)
      | \x1b [ -/]* [0-~]                         (?# two and three characters)
      | [\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]
    )""",
    re.VERBOSE,
)
OPEN = re.compile(
    r"""
    (?: \x1b (?: \[ [0-?]* [ -/]* | [ -/]* )
      | \x9b [0-?]* [ -/]*
      | (?: \x1b[\]PX^_] | [\x90\x98\x9d-\x9f] ) [^\x07\x1b\x9c]* \x1b?
    )\Z""",
    re.VERBOSE,
)
"""A sequence that may go on in the next piece."""
LONGEST = 4200
PLAIN = "\x1b[0m"


class TerminalFilter:
    """Filters one stream of text, in pieces that may be cut anywhere. Newline, tab, carriage return and colours
    pass."""

    def __init__(self) -> None:
        self._rest = ""
        self._coloured = False

    def feed(self, text: str) -> str:
        """The text that may be printed now."""
        text = self._rest + text
        cut = OPEN.search(text, max(0, len(text) - LONGEST))
        text, self._rest = (text[: cut.start()], text[cut.start() :]) if cut else (text, "")
        self._coloured = self._coloured or "\x1b[" in text
        return ESCAPE.sub(lambda match: "" if match["gone"] else match[0], text)

    @property
    def plain(self) -> str:
        """The sequence that resets the terminal's colours after what was printed so far."""
        return PLAIN if self._coloured else ""

    def end(self) -> str:
        """The same after the last piece; an unfinished sequence is dropped."""
        self._rest = ""
        return self.plain


class Unfiltered:
    """Passes every byte: for files and programs, and on request."""

    plain = ""

    def feed(self, text: str) -> str:
        """The text itself."""
        return text

    def end(self) -> str:
        """Nothing to reset."""
        return ""
