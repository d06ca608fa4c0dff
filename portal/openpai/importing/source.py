"""The answers in our own words; what is not of OpenPAI's shape is told by row and field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from portal.common.errors import Fault
from portal.openpai.importing.ways import GROUPS, STORAGES, USERS, VCS, Answers


@dataclass(frozen=True, slots=True)
class Person:
    username: str
    email: str
    admin: bool
    groups: tuple[str, ...]
    vcs: tuple[str, ...]
    extension: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Group:
    """``admin``: its members administer. ``vcs`` and ``storages``: what it gives them."""

    name: str
    description: str
    external_name: str
    admin: bool
    vcs: tuple[str, ...]
    storages: tuple[str, ...]
    extension: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """A storage. ``export`` is ``server:/path`` of an NFS one, else empty; ``shared``: all see the same folder."""

    name: str
    kind: str
    export: str
    read_only: bool
    shared: bool


@dataclass(slots=True)
class Source:
    """``faults`` stand at ``users[3].email`` and the like."""

    vcs: list[str] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    people: list[Person] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


class _Item:
    """One row; says what is wrong with a field once it is asked for."""

    def __init__(self, path: str, value: Any, faults: list[Fault]) -> None:
        self._path, self._faults = path, faults
        self._value: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
        if not isinstance(value, Mapping):
            self._wrong("", "must be an object")

    def text(self, name: str, *, needed: bool = False) -> str:
        value = self._value.get(name)
        if value is None and not needed:
            return ""
        if not isinstance(value, str) or (needed and not value):
            self._wrong(name, "must be text")
            return ""
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self._value.get(name)
        if value is not None and not isinstance(value, bool):
            self._wrong(name, "must be true or false")
        return value if isinstance(value, bool) else default

    def names(self, name: str) -> tuple[str, ...]:
        value = self._value.get(name) or []
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self._wrong(name, "must be a list of names")
            return ()
        return tuple(dict.fromkeys(value))

    def inside(self, name: str) -> _Item:
        return _Item(f"{self._path}.{name}", self._value.get(name) or {}, self._faults)

    def plain(self) -> dict[str, Any]:
        return dict(self._value)

    def _wrong(self, name: str, words: str) -> None:
        path = f"{self._path}.{name}" if name else self._path
        self._faults.append(Fault(path, words, "invalid"))


def source_read(answers: Answers) -> Source:
    """Everything that could be read, with what could not."""
    source = Source()
    source.vcs = _vcs(answers.get(VCS), source.faults)
    source.groups = [_group(item) for item in _items(GROUPS, answers, source.faults)]
    source.people = [_person(item) for item in _items(USERS, answers, source.faults)]
    source.places = [_place(item) for item in _items(STORAGES, answers, source.faults)]
    return source


def _vcs(value: Any, faults: list[Fault]) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, Mapping):
        faults.append(Fault(VCS, "must be an object by name", "invalid"))
        return []
    return [str(name) for name in value]


def _items(kind: str, answers: Answers, faults: list[Fault]) -> list[_Item]:
    value = answers.get(kind) or []
    if not isinstance(value, list):
        faults.append(Fault(kind, "must be a list", "invalid"))
        return []
    return [_Item(f"{kind}[{number}]", one, faults) for number, one in enumerate(value)]


def _group(item: _Item) -> Group:
    extension = item.inside("extension")
    acls = extension.inside("acls")
    return Group(
        item.text("groupname", needed=True), item.text("description"), item.text("externalName"),
        acls.flag("admin", False), acls.names("virtualClusters"), acls.names("storageConfigs"),
        {name: value for name, value in extension.plain().items() if name != "acls"},
    )  # fmt: skip


def _person(item: _Item) -> Person:
    return Person(
        item.text("username", needed=True), item.text("email"), item.flag("admin", False), item.names("grouplist"),
        item.names("virtualCluster"), item.inside("extension").plain(),
    )  # fmt: skip


def _place(item: _Item) -> Place:
    kind, data = item.text("type") or "unknown", item.inside("data")
    export = f"{data.text('server')}:{data.text('path')}" if kind == "nfs" else ""
    return Place(item.text("name", needed=True), kind, export, item.flag("readOnly", False), item.flag("share", True))
