"""Reading plain data that somebody else wrote: each fault is noted with its path, and reading goes on."""

from collections.abc import Mapping
from typing import Any, NamedTuple

MOST = 2**31
"""Above every number of cells that makes sense."""


class Words(NamedTuple):
    """A sentence or a part of one: its form, by which it is known whatever language it is told in, and what fills its
    holes, maybe words in turn."""

    form: str
    values: Mapping[str, object]

    def __str__(self) -> str:
        return self.form % self.values


class Fault(NamedTuple):
    """What is wrong at one place of a document; a path looks like `virtualClusters.vision.virtualCells[0]`."""

    path: str
    words: Words

    @property
    def problem(self) -> str:
        """The words in English."""
        return str(self.words)

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class ConfigError(ValueError):
    """A configuration that describes no cluster, with every fault that was found."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("; ".join(map(str, faults)))
        self.faults = tuple(faults)


class Faults:
    """The faults found so far; each `…` method gives a value of the kind asked for, a neutral one if it is not."""

    def __init__(self) -> None:
        self.found: list[Fault] = []

    def add(self, path: str, form: str, **values: object) -> None:
        """Note a fault."""
        self.found.append(Fault(path, Words(form, values)))

    def table(self, value: Any, path: str, known: tuple[str, ...] | None = None) -> dict[str, Any]:
        """A mapping whose keys are text, of `known` ones if given; nothing there (None) is an empty one."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.add(path, "must be a mapping, not %(kind)s", kind=_kind(value))
            return {}
        for key in value:
            if not isinstance(key, str):
                self.add(path, "the key %(key)s must be text: quote it", key=_short(key))
            elif known is not None and key not in known:
                self.add(_at(path, key), "is not known here; known are %(known)s", known=", ".join(known))
        return {key: one for key, one in value.items() if isinstance(key, str)}

    def items(self, value: Any, path: str) -> list[Any]:
        """A list; nothing there is an empty one."""
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            self.add(path, "must be a list, not %(kind)s", kind=_kind(value))
            return []
        return list(value)

    def count(self, value: Any, path: str, least: int = 0) -> int:
        """A whole number of at least `least`."""
        if not isinstance(value, int) or isinstance(value, bool):
            self.add(path, "must be a whole number, not %(kind)s", kind=_kind(value))
        elif not least <= value < MOST:
            form = "must be at least %(least)s and below %(most)s, not %(value)s"
            self.add(path, form, least=least, most=MOST, value=_short(value))
        else:
            return value
        return least

    def flag(self, value: Any, path: str, *, needed: bool = False) -> bool:
        """True or false; nothing there is false, and a fault where one is `needed`."""
        if not isinstance(value, bool) and (needed or value is not None):
            self.add(path, "must be true or false, not %(kind)s", kind=_kind(value))
        return value is True

    def name(self, value: Any, path: str, forbidden: str = "") -> str:
        """A name: text that is not empty, without blanks at its ends and the characters of `forbidden`."""
        if not isinstance(value, str):
            if isinstance(value, int | float):
                self.add(path, "must be text, not %(kind)s: quote it", kind=_kind(value))
            else:
                self.add(path, "must be text, not %(kind)s", kind=_kind(value))
            return ""
        if not value or value != value.strip() or not value.isprintable():
            self.add(path, "must be a name, not %(value)s", value=_short(value))
        elif bad := [one for one in forbidden if one in value]:
            self.add(path, "must not hold %(bad)s: %(value)s", bad=" ".join(map(repr, bad)), value=_short(value))
        else:
            return value
        return ""


_KINDS = {
    type(None): Words("nothing", {}),
    bool: Words("true or false", {}),
    str: Words("text", {}),
    int: Words("a number", {}),
    float: Words("a broken number", {}),
}


def _kind(value: Any) -> Words:
    if isinstance(value, list | tuple):
        return Words("a list", {})
    kind = _KINDS.get(type(value), Words("a mapping", {}))
    if value is None or isinstance(value, Mapping):
        return kind
    return Words("%(kind)s (%(value)s)", {"kind": kind, "value": _short(value)})


def _short(value: Any) -> str | Words:
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits has no text
        return Words("a very large number", {})
    return text if len(text) <= 80 else f"{text[:77]}..."


def _at(path: str, key: str) -> str:
    return f"{path}.{str(_short(key))[1:-1]}" if path else key
