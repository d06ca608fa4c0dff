"""Bulk import of accounts from a table."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group
from django.db import transaction
from django.utils.translation import gettext

from portal.accounts.models import User
from portal.accounts.services import NameTaken, user_judged, user_store, users_taken
from portal.common.checking import faults_of
from portal.common.errors import Fault, Invalid
from portal.common.progress import Steps
from portal.people.services.people import account_join
from portal.teams.models import VirtualCluster


@dataclass(slots=True)
class Row:
    """A line of the table (from 1, including the header). ``about`` is the input of ``user_judged``, with ``groups``
    and ``virtual_clusters`` by name, as far as it could be parsed; ``faults`` are those of parsing, and those found
    here."""

    line: int
    username: str
    about: dict[str, Any]
    faults: list[Fault] = field(default_factory=list)
    created: bool = False
    draft: User | None = None

    @property
    def role(self) -> str:
        """The new account's cluster role; empty if the row is not valid."""
        return self.draft.role if self.draft else ""

    @property
    def has_password(self) -> bool:
        """Whether it gets a password; without, nobody can log in by one until it is set."""
        return self.about.get("password") is not None


def people_import(
    *,
    rows: Sequence[Row],
    dry_run: bool,
    all_or_nothing: bool,
    now: datetime,
    actor: str,
    told: Steps = lambda done, total: None,
) -> Sequence[Row]:
    """Creates the accounts, reporting progress to ``told``; the rows then tell what became of each. With
    ``all_or_nothing`` one invalid row prevents all; unless it is a dry run, that raises Invalid with all rows'
    faults."""
    groups = {group.name: group for group in Group.objects.all()}
    vcs = {vc.name: vc for vc in VirtualCluster.objects.all()}
    _check(rows, groups, vcs)
    refused = [fault for row in rows for fault in row.faults]
    if dry_run:
        return rows
    if refused and all_or_nothing:
        numbers = {"number": sum(bool(row.faults) for row in rows), "all": len(rows)}
        raise Invalid(refused, gettext("%(number)s of %(all)s rows cannot be; none was done.") % numbers)
    good = [row for row in rows if not row.faults]
    _hash(good, told)
    if all_or_nothing:
        with transaction.atomic():
            _store(good, groups, vcs, now, actor)
    else:
        for row in good:
            try:
                with transaction.atomic():
                    _store([row], groups, vcs, now, actor)
            except NameTaken as error:
                row.faults.append(_fault(row, "username", error.detail, "taken"))
    return rows


def _check(rows: Sequence[Row], groups: dict[str, Group], vcs: dict[str, VirtualCluster]) -> None:
    users: list[tuple[Row, User]] = []
    for row in rows:
        told = {fault.path for fault in row.faults}
        about = {name: value for name, value in row.about.items() if name not in {"groups", "virtual_clusters"}}
        name = "" if "username" in told else row.username
        user, wrong = user_judged(**{"password": None, **about, "username": name})
        found = faults_of(wrong) if wrong else []
        row.faults += [_fault(row, one.path, one.message, one.code) for one in found if one.path not in told]
        row.faults += _unknown(row, "groups", groups, gettext("there is no group %(name)s"))
        row.faults += _unknown(row, "virtual_clusters", vcs, gettext("there is no virtual cluster %(name)s"))
        users.append((row, user))
    _check_free(users)
    for row, user in users:
        row.draft = None if row.faults else user


def _check_free(users: Sequence[tuple[Row, User]]) -> None:
    """Checks that names and uids are unique, among all accounts and among the table's valid rows."""
    rows = {id(user): row for row, user in users}
    for taken in users_taken(users=[user for _, user in users]):
        row = rows[id(taken.user)]
        row.faults.append(_fault(row, taken.path, taken.message, "taken"))
    good = {row.line for row, _ in users if not row.faults}
    for path in ("username", "uid"):
        first: dict[Any, int] = {}
        for row, user in users:
            value = getattr(user, path)
            if row.line in good:
                first.setdefault(value, row.line)
            if value is not None and first.get(value, row.line) != row.line:
                message = gettext("line %(line)s has %(value)s already") % {"line": first[value], "value": value}
                row.faults.append(_fault(row, path, message, "twice"))


def _unknown(row: Row, path: str, known: Iterable[str], words: str) -> Iterator[Fault]:
    for name in row.about.get(path, ()):
        if name not in known:
            yield _fault(row, path, words % {"name": name}, "unknown")


def _fault(row: Row, path: str, message: str, code: str) -> Fault:
    return Fault(path, message, code, row.line)


def _hash(rows: Sequence[Row], told: Steps) -> None:
    """Hashes the passwords in advance: each takes a good part of a second, too long for an open transaction."""
    passwords = [row.about.get("password") for row in rows]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        hashes = pool.map(make_password, passwords)
        for done, (row, hashed) in enumerate(zip(rows, hashes, strict=True), 1):
            assert row.draft is not None
            row.draft.password = hashed
            told(done, len(rows))


def _store(
    rows: Sequence[Row], groups: dict[str, Group], vcs: dict[str, VirtualCluster], now: datetime, actor: str
) -> None:
    for row in rows:
        assert row.draft is not None
        user = user_store(user=row.draft, now=now, actor=actor)
        account_join(
            user=user, groups=[groups[name] for name in row.about.get("groups", ())],
            vcs=[vcs[name] for name in row.about.get("virtual_clusters", ())], now=now, actor=actor,
        )  # fmt: skip
        row.created = True
