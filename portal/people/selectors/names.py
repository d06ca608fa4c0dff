"""Autocompletion of names that the user may see."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from django.db.models import QuerySet

from portal.accounts.models import User
from portal.people.selectors.people import group_restrict, user_restrict
from portal.teams.selectors.visible import node_restrict, vc_restrict

OFFERED = 20
"""Suggestions at most; typing more narrows them down."""


def names_offered(*, user: User, kind: str, text: str) -> list[str]:
    """Names that contain the text, those that start with it first. ``kind``: a key of KINDS; else KeyError."""
    return list(islice(KINDS[kind](user, text), OFFERED))


def _of(rows: QuerySet[Any], field: str, text: str) -> Iterator[str]:
    """Distinct names, by at most two queries."""
    begun = rows.filter(**{f"{field}__istartswith": text}).order_by(field).values_list(field, flat=True)
    yield from (first := list(begun[:OFFERED]))
    if text and len(first) < OFFERED:
        within = rows.filter(**{f"{field}__icontains": text}).exclude(**{f"{field}__istartswith": text})
        yield from within.order_by(field).values_list(field, flat=True)[:OFFERED]


def _users(user: User, text: str) -> Iterator[str]:
    return _of(user_restrict(user=user).filter(is_active=True), "username", text)


def _groups(user: User, text: str) -> Iterator[str]:
    return _of(group_restrict(user=user), "name", text)


def _vcs(user: User, text: str) -> Iterator[str]:
    return _of(vc_restrict(user=user), "name", text)


def _nodes(user: User, text: str) -> Iterator[str]:
    return _of(node_restrict(user=user), "name", text)


def _members(user: User, text: str) -> Iterator[str]:
    yield from _users(user, text)
    yield from _groups(user, text)


KINDS: Mapping[str, Callable[[User, str], Iterator[str]]] = {
    "users": _users,
    "groups": _groups,
    "members": _members,
    "virtual-clusters": _vcs,
    "nodes": _nodes,
}
