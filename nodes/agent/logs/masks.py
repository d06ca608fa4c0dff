"""Finds a task's secrets in its output, in any of the notations of shells and programs.

What is found and what cannot be: ``docs/decisions/log-secrets.md``.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from urllib.parse import quote, quote_plus

SHORTEST = 8
"""Characters below which a text is no secret: it would appear in every other line."""
MOST = 20_000
"""Most texts searched for in one log."""
LONGEST, PIECE = 4096, 1024
"""A longer text, in bytes, is searched for in pieces."""
HIDDEN = b"*"

_ANSI_C = {"\a": r"\a", "\b": r"\b", "\x1b": r"\E", "\f": r"\f", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
_ANSI_C |= {"\\": r"\\", "'": r"\'"}


class Masks:
    """Secrets of one task, prepared for search. Immutable. False where there is nothing to mask.

    A line without any costs a look at every 4th (8th, where all are long) position, however many they are: any match
    covers one of these, which is then among the first such blocks of a pattern.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        found = [*islice(_once(_patterns(secrets)), MOST + 1)]
        self.incomplete = len(found) > MOST
        self._patterns = patterns = sorted(found[:MOST])
        self._within, self._far_within = _within(patterns)
        self.longest = max(map(len, patterns), default=0)
        self._width = 8 if patterns and min(map(len, patterns)) >= 15 else 4
        self._heads: set[bytes] = set()
        self._stems: set[bytes] = set()
        self._blocks: dict[int, tuple[int, ...]] = {}
        for pattern in patterns:
            self._add(pattern)
        self._known = frozenset(self._blocks)

    def _add(self, pattern: bytes) -> None:
        self._heads.add(pattern[:SHORTEST])
        self._stems.update(pattern[:length] for length in range(1, SHORTEST))
        for offset in range(self._width):
            block = int.from_bytes(pattern[offset : offset + self._width], sys.byteorder)
            offsets = self._blocks.get(block, ())
            if offset not in offsets:
                self._blocks[block] = (*offsets, offset)

    def __bool__(self) -> bool:
        return self.longest > 0

    def may_have(self, data: bytes) -> bool:
        """Whether a secret may be in ``data``; cheap."""
        return not self._known.isdisjoint(self._cut(data))

    def spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        """(start, end) of each secret in ``data``; some overlap."""
        blocks, width = self._blocks, self._width
        for number, block in enumerate(self._cut(data)):
            for offset in blocks.get(block, ()):
                start = number * width - offset
                if start >= 0 and (length := self._longest_at(data, start)):
                    yield start, start + length

    def open_at(self, data: bytes) -> int:
        """Where the end of ``data`` may be the beginning of a secret that goes on behind it; its length where none
        may."""
        for start in range(max(data.rfind(b"\n") + 1, len(data) - self.longest + 1), len(data)):
            if len(data) - start < SHORTEST:
                if data[start:] in self._stems:
                    return start
            elif data[start : start + SHORTEST] in self._heads:
                rest = data[start:]
                behind = bisect_right(self._patterns, rest)  # where all that begin with it and go on would be
                if behind < len(self._patterns) and self._patterns[behind].startswith(rest):
                    return start
        return len(data)

    def text(self, text: str) -> str:
        """``text`` with its secrets masked."""
        if not self:
            return text
        shown = bytearray(data := text.encode(errors="replace"))
        hide(shown, self.spans(data))
        return shown.decode(errors="replace")

    def _cut(self, data: bytes) -> memoryview[int]:
        whole = memoryview(data)[: len(data) - len(data) % self._width]
        return whole.cast("Q") if self._width == 8 else whole.cast("I")

    def _longest_at(self, data: bytes, start: int) -> int:
        """Length of the longest secret there. Of all that match, the last in order is it, or one within the last that
        does not sort behind the data: however many begin alike, few are compared."""
        if data[start : start + SHORTEST] not in self._heads:
            return 0
        at = bisect_right(self._patterns, data[start : start + self.longest]) - 1
        while not self._stands(data, start, at):
            far = self._far_within[at]
            at = self._within[at] if self._stands(data, start, far) else far
        return len(self._patterns[at]) if at >= 0 else 0

    def _stands(self, data: bytes, start: int, at: int) -> bool:
        return at < 0 or data.startswith(self._patterns[at], start)


def _within(patterns: Sequence[bytes]) -> tuple[list[int], list[int]]:
    """For each sorted pattern, the index of the longest other one with which it begins, and of one far down that chain,
    so that its end is reached in few steps (skew-binary jumps); -1 where there is none."""
    near, far, depth, around = list[int](), list[int](), list[int](), list[int]()
    for position, pattern in enumerate(patterns):
        while around and not pattern.startswith(patterns[around[-1]]):
            around.pop()
        above = around[-1] if around else -1
        over = far[above] if above >= 0 else -1
        beyond = far[over] if over >= 0 else -1
        levels = [depth[one] if one >= 0 else 0 for one in (above, over, beyond)]
        far.append(beyond if over >= 0 and levels[0] - levels[1] == levels[1] - levels[2] else above)
        near.append(above)
        depth.append(levels[0] + 1)
        around.append(position)
    return near, far


def hide(data: bytearray, spans: Iterable[tuple[int, int]], shift: int = 0) -> None:
    """Writes asterisks over ``spans``, moved by ``shift``, as far as they lie in ``data``."""
    for start, end in spans:
        first, last = max(0, start + shift), end + shift
        if last > first:
            data[first:last] = HIDDEN * (last - first)


def _once(patterns: Iterable[bytes]) -> Iterator[bytes]:
    seen: set[bytes] = set()
    for pattern in patterns:
        if pattern not in seen:
            seen.add(pattern)
            yield pattern


def _patterns(secrets: Iterable[str]) -> Iterator[bytes]:
    """All patterns: first each line as it is, so that no number of others crowds these out."""
    values = [value for value in dict.fromkeys(secrets) if len(value) >= SHORTEST]
    lines = [line for value in values for line in _lines(value)]
    forms: list[Callable[[], Iterator[bytes]]] = [
        lambda: (line.encode(errors="replace") for line in lines),
        lambda: (form.encode(errors="replace") for line in lines for form in _quoted(line)),
        lambda: (text for value in dict.fromkeys([*values, *lines]) for text in _base64(value)),
    ]
    for form in forms:
        for pattern in form():
            yield from _pieces(pattern)


def _lines(value: str) -> Iterator[str]:
    return (line for part in value.split("\n") if len(line := part.strip()) >= SHORTEST)


def _pieces(pattern: bytes) -> Iterator[bytes]:
    if len(pattern) < SHORTEST or b"\n" in pattern:
        return
    if len(pattern) <= LONGEST:
        yield pattern
        return
    yield from (pattern[at : at + PIECE] for at in range(0, len(pattern) - PIECE, PIECE))
    yield pattern[-PIECE:]


def _quoted(line: str) -> Iterator[str]:
    """The line in the quoted forms of shells and programs; none where it needs no quoting."""
    for form in (
        line.replace("'", r"'\''").strip("'"),  # bash -x
        line.replace("'", "'\"'\"'").strip("'"),  # Python's shlex
        re.sub("'+", "'\"\\g<0>\"'", line).strip("'"),  # dash -x, busybox
        "".join(_ansi_c(character, ascii_only=False) for character in line),
        "".join(_ansi_c(character, ascii_only=True) for character in line),
        re.sub(r'[\\"$`]', r"\\\g<0>", line),
        re.sub(r"^[~#]|(?<=[:=])~|[^\w@%+=:./~#\x80-\U0010ffff-]", r"\\\g<0>", line, flags=re.ASCII),  # bash's %q
        repr(line)[1:-1],
        json.dumps(line)[1:-1],
        json.dumps(line, ensure_ascii=False)[1:-1],
        re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", json.dumps(line, ensure_ascii=False)[1:-1]),  # Go
        quote(line, errors="replace"),
        quote(line, safe="", errors="replace"),
        quote(line, safe="!'()*", errors="replace"),  # JavaScript
        quote_plus(line, errors="replace"),  # in forms
    ):
        if form != line:
            yield form


def _ansi_c(character: str, *, ascii_only: bool) -> str:
    """The character as bash writes it between ``$'`` and ``'``."""
    if character in _ANSI_C:
        return _ANSI_C[character]
    if " " <= character <= "~" or (character > "\x9f" and not ascii_only):
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode(errors="replace"))


def _base64(value: str) -> Iterator[bytes]:
    """The fixed part of the value's base64, wherever it begins in what was encoded; in both alphabets, and also in the
    lines of 76 and 64 letters in which it is written alone."""
    data = value.encode(errors="replace")
    alone = [base64.b64encode(text).rstrip(b"=") for text in dict.fromkeys([data, data.strip() + b"\n"])]
    lines = [one[at : at + width] for one in alone for width in (76, 64) for at in range(0, len(one), width)]
    for text in [*alone, *(_base64_behind(data, before) for before in range(3)), *(lines if len(data) > 48 else ())]:
        yield text
        yield text.translate(_URL_SAFE)


_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def _base64_behind(data: bytes, before: int) -> bytes:
    """The letters that depend on ``data`` alone, with ``before`` other bytes before it in its group of three."""
    encoded = base64.b64encode(bytes(before) + data)
    return encoded[(0, 2, 3)[before] : (before + len(data)) * 8 // 6]
