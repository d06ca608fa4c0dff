"""Sentences as code and data: each is declared once, stored by its code, and worded in the language of who reads it.

Plain Python, since nodes say sentences, too: ``worded`` (``portal/common/sentences.py``) asks the catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

LONGEST = 2_000
"""Characters of a value that a sentence keeps: names and texts of others are of any length."""
MOST = 100
"""Members of a list that a sentence keeps."""
DEEPEST = 10
"""How deeply stored sentences are nested at most."""
SAYS = "says"
"""The key under which stored data holds the sentence's code."""

_HOLE = re.compile(r"%\((\w+)\)s")
_DECLARED: dict[str, Wording] = {}


class Wording:
    """A declared sentence: its code, and its English text with named placeholders. With ``plural``, that one is used
    unless the number ``count`` among the data is 1. ``between``: stands between the members of a list. Call it with the
    data to say it."""

    def __init__(self, code: str, text: str, plural: str = "", *, count: str = "", between: str = ", ") -> None:
        if code in _DECLARED:
            raise ValueError(f"two sentences are declared as {code}")
        self.code, self.text, self.plural, self.count = code, text, plural, count
        self.between = between
        self.names = frozenset(_HOLE.findall(text))
        _DECLARED[code] = self

    def __call__(self, **data: Any) -> Sentence:
        """Raises TypeError unless the data are exactly what the placeholders name."""
        if data.keys() != self.names | {self.count} - {""}:
            raise TypeError(f"the sentence {self.code} takes {sorted(self.names)}, not {sorted(data)}")
        return Sentence(self, {name: _bounded(value) for name, value in data.items()})

    def is_one(self, data: Mapping[str, Any]) -> bool:
        """Whether the singular fits the data."""
        return not self.plural or data.get(self.count) == 1

    def __repr__(self) -> str:
        return f"<Wording {self.code}>"


class Sentence(str):
    """A sentence in English that knows its code and data. Data are texts, numbers, sentences, and lists of texts."""

    __slots__ = ("data", "wording")

    wording: Wording
    data: Mapping[str, Any]

    def __new__(cls, wording: Wording, data: Mapping[str, Any]) -> Sentence:
        form = wording.text if wording.is_one(data) else wording.plural
        made = super().__new__(
            cls, form % Filled({name: _listed(value, wording.between) for name, value in data.items()})
        )
        made.wording, made.data = wording, data
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return told, (self.stored(),)

    def stored(self) -> dict[str, Any]:
        """The sentence as JSON."""
        return {SAYS: self.wording.code, **{name: _json(value) for name, value in self.data.items()}}


class Filled(dict[str, Any]):
    """What fills placeholders; a question mark where something is missing."""

    def __missing__(self, name: str) -> str:
        return "?"


def declared() -> Mapping[str, Wording]:
    """Every sentence, by its code."""
    return _DECLARED


def stored(text: str) -> dict[str, Any]:
    """A sentence as JSON; of the empty text an empty object. Raises TypeError for a text that is not declared."""
    if isinstance(text, Sentence):
        return text.stored()
    if not text:
        return {}
    raise TypeError(f"only declared sentences (nodes/protocol/wording.py) are stored, not {text[:80]!r}")


def told(data: Any, deepest: int = DEEPEST) -> str:
    """What stored data say, or the empty text. Never fails: a code that is not known here is told as it is."""
    code = data.get(SAYS) if isinstance(data, dict) else None
    if not isinstance(code, str) or not deepest:
        return ""
    wording = _DECLARED.get(code)
    if wording is None:
        return code[:LONGEST]
    return Sentence(
        wording, {name: _read(data[name], deepest) for name in wording.names | {wording.count} if name in data}
    )


def message_split(made: Any) -> None:
    """Of a new frozen object with ``message`` and ``said``: a declared sentence becomes its text and its data, so that
    these are written and sent."""
    if isinstance(made.message, Sentence):
        object.__setattr__(made, "said", made.message.stored())
        object.__setattr__(made, "message", str(made.message))


def heard(text: str, said: Any) -> str:
    """A text of a node as a declared sentence: by the code and data that come with it, if they say the same; else the
    text itself."""
    sentence = told(said)
    return sentence if sentence == text else text


def _read(value: Any, deepest: int) -> Any:
    if isinstance(value, list):
        return [_text(_read(one, deepest - 1)) for one in value[:MOST]] if deepest else []
    return told(value, deepest - 1) if isinstance(value, dict) else _bounded(value)


def _listed(value: Any, between: str) -> Any:
    return between.join(value) if isinstance(value, list) else value


def _json(value: Any) -> Any:
    if isinstance(value, list):
        return [_json(one) for one in value]
    return value.stored() if isinstance(value, Sentence) else value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _bounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_bounded(one) for one in value[:MOST]]
    if isinstance(value, Sentence | int | float) or value is None:
        return value
    return str(value)[:LONGEST].replace("\0", "\ufffd")
