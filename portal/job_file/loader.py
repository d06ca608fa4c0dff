"""Loads text into plain JSON values, safe against hostile files.

libyaml yields one event at a time and every limit is checked on the way, so a refused file is never built: an alias
bomb is refused by the size it would grow to, not after it has grown. JSON, a subset of YAML, is read the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import yaml

from portal.job_file import scalars
from portal.job_file.problems import Path, Problem, SpecInvalid, path_text

MAX_BYTES: Final = 1_000_000
MAX_DEPTH: Final = 32
MAX_VALUES: Final = 5_000
MAX_CHARACTERS: Final = 2_000_000
"""Of all texts together, each alias counted as the text it stands for."""
MAX_ANCHORS: Final = 100

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_TAG_DIRECTIVE = re.compile(r"^%TAG", re.MULTILINE)
_BAD_ESCAPE = "invalid Unicode character escape code"
_MERGE = "<<"
_MAP_TAGS = (None, "!", scalars.TAG_PREFIX + "map")
_LIST_TAGS = (None, "!", scalars.TAG_PREFIX + "seq")
_TEXT_TAGS = (None, "!", *scalars.SCALAR_TAGS)

_Collection = yaml.MappingStartEvent | yaml.SequenceStartEvent


@dataclass(frozen=True, slots=True)
class Document:
    """A file as read: `value` holds JSON values only, `lines` each path's line (from 1), `problems` those that did not
    stop the reading, `text` the input of libyaml."""

    value: dict[str, Any]
    text: str
    lines: dict[Path, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def line(self, path: Path) -> int | None:
        """The line of `path` or of the nearest enclosing node that has one."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None


def load(source: str | bytes) -> Document:
    """Reads one YAML or JSON document that is a mapping; raises `SpecInvalid` if it cannot be read."""
    text = checked_text(source)
    builder = _Builder(text)
    try:
        return builder.document(yaml.parse(text, Loader=yaml.CSafeLoader))
    except yaml.MarkedYAMLError as error:
        if _BAD_ESCAPE in str(error.problem) and _SURROGATES.search(text):
            return load(_SURROGATES.sub(_join_surrogates, text))
        raise SpecInvalid((*builder.problems, _syntax_problem(error, text))) from None
    except yaml.YAMLError as error:
        raise SpecInvalid((*builder.problems, Problem("", f"not valid YAML: {error}", "syntax"))) from None


def checked_text(source: str | bytes) -> str:
    """The file as text without a byte order mark; raises `SpecInvalid` if too large or not plain text."""
    if len(source) > MAX_BYTES or (isinstance(source, str) and _bytes_in(source) > MAX_BYTES):
        size = f"{len(source):,} {'characters' if isinstance(source, str) else 'bytes'}"
        _refuse("too_large", f"the file has {size}; at most {MAX_BYTES:,} bytes are accepted")
    text = _decoded(source) if isinstance(source, bytes) else source
    text = text.removeprefix("\ufeff")
    bad = _FORBIDDEN.search(text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        _refuse("control_character", f"contains the control character U+{ord(bad[0]):04X}; remove it", line)
    if _TAG_DIRECTIVE.search(text):  # libyaml compares each directive to all before it: quadratic
        _refuse("tag", "declares tags of its own with %TAG; remove the declaration")
    return text


def _bytes_in(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def _decoded(source: bytes) -> str:
    try:
        return source.decode()
    except UnicodeDecodeError as error:
        _refuse("encoding", f"is not UTF-8 text (byte {error.start}); save it as UTF-8")


def _refuse(code: str, message: str, line: int | None = None, path: Path = ()) -> NoReturn:
    raise SpecInvalid((Problem(path_text(path), message, code, line),))


def _join_surrogates(match: re.Match[str]) -> str:
    """Joins JSON's two escapes for a character beyond U+FFFF into the one that YAML uses."""
    high, low = int(match[2], 16), int(match[3], 16)
    return match[1] + chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


def _syntax_problem(error: yaml.MarkedYAMLError, text: str) -> Problem:
    what = ", ".join(part for part in (error.context, error.problem) if part)
    last = text.rstrip().count("\n")
    line = None if error.problem_mark is None else min(error.problem_mark.line, last) + 1
    return Problem("", f"not valid YAML: {what}", "syntax", line)


@dataclass(slots=True)
class _Size:
    """Values and characters built so far, or in one anchored part."""

    values: int = 0
    characters: int = 0


class _Builder:
    """Builds the values of one document from its events, path by path."""

    def __init__(self, text: str) -> None:
        self.problems: list[Problem] = []
        self._text = text
        self._lines: dict[Path, int] = {}
        self._size = _Size()
        self._anchors: dict[str, tuple[Any, _Size]] = {}
        self._events: Iterator[yaml.Event] = iter(())

    def document(self, events: Iterator[yaml.Event]) -> Document:
        self._events = events
        start = self._after_document_start()
        if not isinstance(start, yaml.MappingStartEvent):
            _refuse("not_a_mapping", "must be a mapping of keys such as `name:` and `taskRoles:`", _line(start))
        value = self._node(start, ())
        next(events)
        following = next(events)
        if not isinstance(following, yaml.StreamEndEvent):
            self._stop("documents", "holds a second document; give one job per file", _line(following), ())
        return Document(value, self._text, self._lines, tuple(self.problems))

    def _after_document_start(self) -> yaml.Event:
        for event in self._events:
            if isinstance(event, yaml.StreamEndEvent):
                _refuse("empty", "is empty")
            if not isinstance(event, yaml.StreamStartEvent | yaml.DocumentStartEvent):
                return event
        _refuse("empty", "is empty")

    def _node(self, event: yaml.Event, path: Path) -> Any:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, path)
        self._lines[path] = _line(event)
        before = _Size(self._size.values, self._size.characters)
        self._count(1, 0, event, path)
        value = self._value(event, path)
        anchor = getattr(event, "anchor", None)
        if anchor is not None:
            self._anchor(anchor, value, before, event, path)
        return value

    def _value(self, event: yaml.Event, path: Path) -> Any:
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, path)
        if len(path) >= MAX_DEPTH:
            self._stop("too_deep", f"is nested deeper than {MAX_DEPTH} levels", _line(event), path)
        if isinstance(event, yaml.MappingStartEvent):
            self._check_tag(event, _MAP_TAGS, path)
            return self._mapping(path)
        assert isinstance(event, yaml.SequenceStartEvent)
        self._check_tag(event, _LIST_TAGS, path)
        return self._sequence(path)

    def _check_tag(self, event: _Collection | yaml.ScalarEvent, accepted: tuple[str | None, ...], path: Path) -> None:
        if event.tag not in accepted:
            short = _short_tag(str(event.tag))[:40]
            message = f"the tag {short} is not accepted; only !!str, !!int, !!float, !!bool, !!null are"
            self._problem("tag", message, event, path)

    def _sequence(self, path: Path) -> list[Any]:
        items: list[Any] = []
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(self._node(event, (*path, len(items))))
        return items

    def _mapping(self, path: Path) -> dict[str, Any]:
        items: dict[str, Any] = {}
        inherited: list[dict[str, Any]] = []
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key, merges = self._key(event, path)
            value = self._node(next(self._events), (*path, key))
            if merges:
                inherited += self._merged(value, event, path)
            elif key in items:
                message = f"the key {key[:80]!r} stands twice in one mapping; keep one of them"
                self._problem("duplicate_key", message, event, (*path, key))
            else:
                items[key] = value
        for more in inherited:
            items = {**more, **items}
        return items

    def _merged(self, value: Any, event: yaml.Event, path: Path) -> list[dict[str, Any]]:
        """The mappings that a merge key names; the first wins (yaml.org/type/merge)."""
        found = value if isinstance(value, list) else [value]
        if all(isinstance(item, dict) for item in found):
            return found
        self._problem("alias", "`<<` must name a mapping or a list of mappings", event, path)
        return []

    def _key(self, event: yaml.Event, path: Path) -> tuple[str, bool]:
        """The key's text (numbers and booleans as written), and whether it is the merge key."""
        if not isinstance(event, yaml.ScalarEvent):
            self._stop("key", "has a key that is not a plain word", _line(event), path)
        self._count(0, len(event.value), event, path)
        self._check_text(event, path)
        return str(event.value), event.value == _MERGE and event.implicit[0]

    def _check_text(self, event: yaml.ScalarEvent, path: Path) -> None:
        """Rejects NUL: an escape can write it, and PostgreSQL stores it in no text."""
        if "\x00" in event.value:
            self._problem("control_character", "contains the control character U+0000; remove it", event, path)

    def _scalar(self, event: yaml.ScalarEvent, path: Path) -> scalars.Scalar:
        text, tag = event.value, event.tag
        self._count(0, len(text), event, path)
        self._check_text(event, path)
        try:
            if tag in scalars.SCALAR_TAGS:
                return scalars.tagged(tag, text)
            if tag is None and event.implicit[0]:
                return scalars.plain(text)
        except scalars.NotOfTag:
            self._problem("tag", f"{text[:40]!r} is no {_short_tag(str(tag))}", event, path)
        except scalars.NotFinite:
            self._problem("number", f"{text[:40]} is no number that can be stored", event, path)
        self._check_tag(event, _TEXT_TAGS, path)
        return str(text)

    def _anchor(self, name: str, value: Any, before: _Size, event: yaml.Event, path: Path) -> None:
        now = self._size
        self._anchors[name] = value, _Size(now.values - before.values, now.characters - before.characters)
        if len(self._anchors) > MAX_ANCHORS:
            message = f"has more than {MAX_ANCHORS} anchors; write the values out"
            self._stop("too_many_anchors", message, _line(event), ())

    def _alias(self, event: yaml.AliasEvent, path: Path) -> Any:
        if event.anchor not in self._anchors:
            name = str(event.anchor)[:40]
            self._stop("alias", f"*{name} names nothing that is complete before it", _line(event), path)
        value, size = self._anchors[event.anchor]
        self._count(size.values, size.characters, event, path)
        return value

    def _count(self, values: int, characters: int, event: yaml.Event, path: Path) -> None:
        self._size.values += values
        self._size.characters += characters
        if self._size.values > MAX_VALUES:
            message = f"holds more than {MAX_VALUES:,} values, aliases counted as what they stand for"
            self._stop("too_many_values", message, _line(event), ())
        if self._size.characters > MAX_CHARACTERS:
            message = f"holds more than {MAX_CHARACTERS:,} characters, aliases counted as what they stand for"
            self._stop("too_many_values", message, _line(event), ())

    def _problem(self, code: str, message: str, event: yaml.Event, path: Path) -> None:
        self.problems.append(Problem(path_text(path), message, code, _line(event)))

    def _stop(self, code: str, message: str, line: int, path: Path) -> NoReturn:
        raise SpecInvalid((*self.problems, Problem(path_text(path), message, code, line)))


def _line(event: yaml.Event) -> int:
    return 0 if event.start_mark is None else event.start_mark.line + 1


def _short_tag(tag: str) -> str:
    return "!!" + tag.removeprefix(scalars.TAG_PREFIX) if tag.startswith(scalars.TAG_PREFIX) else tag
