"""Row by row what an import would do here, and why something cannot be. What is there stays: an import adds."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from django.contrib.auth.models import Group as GroupRow

from portal.accounts.models import ClusterRole, User
from portal.accounts.services import user_judged
from portal.common.checking import faults_of
from portal.common.errors import Fault
from portal.common.names import NAME_RULE
from portal.openpai.importing.source import Group, Person, Place, Source
from portal.storages.models import Storage
from portal.storages.services.storages import storage_faults
from portal.teams.models import Membership, VirtualCluster

MOST_NAME = 64


class What(StrEnum):
    """What becomes of a row."""

    MAKE = "make"
    ADD = "add"  # it is there, and gets what it lacks
    THERE = "there"
    LEAVE = "leave out"
    WRONG = "wrong"


@dataclass(slots=True)
class Row:
    """One thing of the source; ``told`` in words, ``faults`` by field where it is wrong. ``vcs`` and ``groups``: the
    names of what it is put into, or gives."""

    kind: str
    name: str
    what: What
    told: str = ""
    faults: list[Fault] = field(default_factory=list)
    vcs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    thing: Group | Person | Place | None = None


@dataclass(slots=True)
class Plan:
    """``roots``: the folder under which nodes mount what was an OpenPAI storage."""

    rows: list[Row]
    root: str

    @property
    def wrong(self) -> list[Row]:
        return [row for row in self.rows if row.what == What.WRONG]


def plan_make(*, source: Source, root: str) -> Plan:
    """Judge everything, and store nothing. ``root``: where nodes mount storages, such as ``/mnt/berth``."""
    shapes = [Row(fault.path.partition("[")[0], fault.path, What.WRONG, faults=[fault]) for fault in source.faults]
    vcs = list(_vc_rows(source))
    known = {row.name for row in vcs if row.what != What.WRONG}
    known |= set(VirtualCluster.objects.values_list("name", flat=True))
    groups = list(_group_rows(source, known))
    people = list(_people_rows(source, known, groups))
    places = list(_place_rows(source, known, root))
    return Plan(_once([*shapes, *vcs, *groups, *people, *places]), root)


def _once(rows: list[Row]) -> list[Row]:
    counted = Counter((row.kind, row.name) for row in rows)
    seen: set[tuple[str, str]] = set()
    for row in rows:
        key = (row.kind, row.name)
        if counted[key] > 1 and key in seen:
            row.what, row.told = What.WRONG, ""
            row.faults.append(Fault("name", "stands there twice", "twice"))
        seen.add(key)
    return rows


def _name_faults(path: str, name: str) -> list[Fault]:
    if len(name) > MOST_NAME:
        return [Fault(path, f"has more than {MOST_NAME} characters", "invalid")]
    if not re.match(NAME_RULE, name):
        return [Fault(path, "letters, digits, dot, dash and underscore only, and a letter or digit first", "invalid")]
    return []


def _vc_rows(source: Source) -> Iterator[Row]:
    there = set(VirtualCluster.objects.values_list("name", flat=True))
    groups = set(GroupRow.objects.values_list("name", flat=True))
    told = {group.name: group for group in source.groups}
    for name in source.vcs:
        faults = _name_faults("name", name)
        if name in groups and name not in there:
            faults.append(Fault("name", "a group has this name, and OpenPAI's API knows both as groups", "taken"))
        what = What.WRONG if faults else What.THERE if name in there else What.MAKE
        yield Row("virtual cluster", name, what, faults=faults, thing=told.get(name))


def _unknown(path: str, names: Iterable[str], known: set[str]) -> list[Fault]:
    return [Fault(path, f"there is no virtual cluster {name}", "unknown") for name in names if name not in known]


# ---------------------------------------------------------------- groups


def _group_rows(source: Source, known: set[str]) -> Iterator[Row]:
    there = set(GroupRow.objects.values_list("name", flat=True))
    held: dict[str, set[str]] = defaultdict(set)
    for holder, vc in Membership.objects.filter(group__isnull=False).values_list("group__name", "vc__name"):
        held[str(holder)].add(vc)
    for group in source.groups:
        if not group.name:
            continue
        if group.name in known:
            yield Row("group", group.name, What.LEAVE, "it is the virtual cluster of this name")
        elif group.admin:
            yield Row("group", group.name, What.LEAVE, "its members become administrators, each by their own role")
        else:
            faults = [*_name_faults("groupname", group.name), *_unknown("virtualClusters", group.vcs, known)]
            lacks = tuple(vc for vc in group.vcs if vc not in held[group.name])
            yield _additive("group", group.name, group.name in there, faults, lacks, (), group)


def _additive(
    kind: str, name: str, there: bool, faults: list[Fault], vcs: tuple[str, ...], groups: tuple[str, ...],
    thing: Group | Person,
) -> Row:  # fmt: skip
    told = ", ".join(part for part in (f"virtual clusters {' '.join(vcs)}" if vcs else "",
                                       f"groups {' '.join(groups)}" if groups else "") if part)  # fmt: skip
    if faults:
        return Row(kind, name, What.WRONG, faults=faults, thing=thing)
    what = (What.ADD if vcs or groups else What.THERE) if there else What.MAKE
    return Row(kind, name, what, told, vcs=vcs, groups=groups, thing=thing)


# ---------------------------------------------------------------- people


def _people_rows(source: Source, known: set[str], groups: list[Row]) -> Iterator[Row]:
    there = {user.username: user for user in User.objects.prefetch_related("groups")}
    held: dict[str, set[str]] = defaultdict(set)
    for name, vc in Membership.objects.filter(user__isnull=False).values_list("user__username", "vc__name"):
        held[str(name)].add(vc)
    given = {group.name: set(group.vcs) for group in source.groups}
    good = {row.name for row in groups if row.what in {What.MAKE, What.ADD, What.THERE}}
    administer = {group.name for group in source.groups if group.admin}
    for person in source.people:
        if not person.username:
            continue
        user = there.get(person.username)
        joins = [name for name in person.groups if name in good]
        direct = [name for name in person.groups if name in known]
        if not (person.admin or administer & set(person.groups)):  # whoever administers may submit everywhere
            by_groups = set().union(*(given[name] for name in joins))
            direct += [vc for vc in person.vcs if vc not in by_groups]
        faults = [] if user else _person_faults(person)
        faults += _unknown("virtualCluster", dict.fromkeys(direct), known)
        faults += [
            Fault("grouplist", f"there is no group {name}", "unknown")
            for name in person.groups if name not in {*given, *known}
        ]  # fmt: skip
        mine = {group.name for group in user.groups.all()} if user else set()
        lacks = tuple(vc for vc in dict.fromkeys(direct) if vc not in held[person.username])
        row = _additive("user", person.username, user is not None, faults, lacks,
                        tuple(name for name in joins if name not in mine), person)  # fmt: skip
        if row.what == What.MAKE and role_of(person, administer) == ClusterRole.ADMIN:
            row.told = ", ".join(part for part in ("administrator", row.told) if part)
        yield row


def role_of(person: Person, administer: set[str]) -> ClusterRole:
    """The role of an account that is made."""
    return ClusterRole.ADMIN if person.admin or administer & set(person.groups) else ClusterRole.USER


def _person_faults(person: Person) -> list[Fault]:
    _, wrong = user_judged(username=person.username, password=None, email=person.email)
    return faults_of(wrong) if wrong else []


# ---------------------------------------------------------------- storages


def _place_rows(source: Source, known: set[str], root: str) -> Iterator[Row]:
    there = set(Storage.objects.values_list("name", flat=True))
    for place in source.places:
        if not place.name:
            continue
        vcs = tuple(sorted({vc for group in source.groups if place.name in group.storages
                            for vc in (group.vcs or [group.name]) if vc in known}))  # fmt: skip
        if place.name in there:
            yield Row("storage", place.name, What.THERE)
        elif not place.export:
            told = f"it is {place.kind}: mount it on the servers yourself, and add it as a path"
            yield Row("storage", place.name, What.LEAVE, told)
        else:
            about = place_about(place, root)
            faults = [
                *_name_faults("name", place.name),
                *storage_faults(name=place.name, virtual_clusters=(), servers=(), **about),
            ]
            told = f"{place.export} at {about['root']}" + (f", for {' '.join(vcs)}" if vcs else "")
            what = What.WRONG if faults else What.MAKE
            yield Row("storage", place.name, what, "" if faults else told, faults, vcs=vcs, thing=place)


def place_about(place: Place, root: str) -> dict[str, object]:
    """The columns of the storage that it becomes."""
    return {
        "kind": "nfs", "root": f"{root.rstrip('/')}/{place.name}", "export": place.export,
        "read_only": place.read_only, "per_user": not place.shared,
    }  # fmt: skip
