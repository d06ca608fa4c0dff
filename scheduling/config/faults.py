"""Reading plain data that somebody else wrote: each fault is noted with its path, and reading goes on."""

from collections.abc import Mapping
from typing import Any, NamedTuple

MOST = 2**31
"""Above every number of cells that makes sense."""


class Fault(NamedTuple):
    """What is wrong at one place of a document; a path looks like `virtualClusters.vision.virtualCells[0]`."""

    path: str
    problem: str

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

    def add(self, path: str, problem: str) -> None:
        """Note a fault."""
        self.found.append(Fault(path, problem))

    def table(self, value: Any, path: str, known: tuple[str, ...] | None = None) -> dict[str, Any]:
        """A mapping whose keys are text, of `known` ones if given; nothing there (None) is an empty one."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.add(path, f"must be a mapping, not {_kind(value)}")
            return {}
        for key in value:
            if not isinstance(key, str):
                self.add(path, f"the key {_short(key)} must be text: quote it")
            elif known is not None and key not in known:
                self.add(_at(path, key), f"is not known here; known are {', '.join(known)}")
        return {key: one for key, one in value.items() if isinstance(key, str)}

    def items(self, value: Any, path: str) -> list[Any]:
        """A list; nothing there is an empty one."""
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            self.add(path, f"must be a list, not {_kind(value)}")
            return []
        return list(value)

    def count(self, value: Any, path: str, least: int = 0) -> int:
        """A whole number of at least `least`."""
        if not isinstance(value, int) or isinstance(value, bool):
            self.add(path, f"must be a whole number, not {_kind(value)}")
        elif not least <= value < MOST:
            self.add(path, f"must be at least {least} and below {MOST}, not {_short(value)}")
        else:
            return value
        return least

    def flag(self, value: Any, path: str) -> bool:
        """True or false; nothing there is false."""
        if value is not None and not isinstance(value, bool):
            self.add(path, f"must be true or false, not {_kind(value)}")
        return value is True

    def name(self, value: Any, path: str, forbidden: str = "") -> str:
        """A name: text that is not empty, without blanks at its ends and the characters of `forbidden`."""
        if not isinstance(value, str):
            self.add(
                path, f"must be text, not {_kind(value)}" + (": quote it" if isinstance(value, int | float) else "")
            )
            return ""
        if not value or value != value.strip() or not value.isprintable():
            self.add(path, f"must be a name, not {_short(value)}")
        elif bad := [one for one in forbidden if one in value]:
            self.add(path, f"must not hold {' or '.join(map(repr, bad))}: {_short(value)}")
        else:
            return value
        return ""


def _kind(value: Any) -> str:
    names = {type(None): "nothing", bool: "true or false", str: "text", int: "a number", float: "a broken number"}
    kind = names.get(type(value), "a list" if isinstance(value, list | tuple) else "a mapping")
    return kind if value is None or isinstance(value, Mapping | list | tuple) else f"{kind} ({_short(value)})"


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits has no text
        return "a very large number"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _at(path: str, key: str) -> str:
    return f"{path}.{_short(key)[1:-1]}" if path else key
