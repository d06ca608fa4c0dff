"""Paginated lists of accounts and groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet
from django.utils.datastructures import MultiValueDict

from portal.accounts.models import User
from portal.accounts.rights import ALLOWED, Action, allowed_everywhere
from portal.common.errors import NotFound
from portal.people.filters import UserFilter
from portal.people.selectors.people import Person, group_restrict, groups_described, people_described, user_restrict
from portal.teams.selectors.visible import vcs_of

PAGE = 50


@dataclass(frozen=True, slots=True)
class Found:
    """A page of a list by name; ``after``: the last name, if there is a next page; else empty."""

    rows: list[Any] = field(default_factory=list)
    after: str = ""


def others_seen(*, user: User, action: Action) -> bool:
    """Whether the user may see other people, or groups: administrators, auditors and leads."""
    return allowed_everywhere(user, action) or vcs_of(user=user, relations=ALLOWED[action]).exists()


def others_right(*, user: User, action: Action) -> None:
    """Raises NotFound for users who may see nobody else."""
    if not others_seen(user=user, action=action):
        raise NotFound("page")


def users_found(*, user: User, after: str = "", **filters: str) -> Found:
    """A page of the visible accounts by name, with groups and virtual clusters; ``filters``: see ``UserFilter``. Three
    queries, two more for users who do not see all."""
    given = {name: [text] for name, text in filters.items()}
    rows = UserFilter(MultiValueDict(given), queryset=user_restrict(user=user)).qs
    found = list(rows.filter(username__gt=after).order_by("username")[: PAGE + 1])
    people: list[Person] = people_described(users=found[:PAGE])
    return Found(people, people[-1].user.username if len(found) > PAGE else "")


def groups_found(*, user: User, text: str = "", after: str = "") -> Found:
    """A page of the visible groups by name, with what they give. Three queries."""
    rows: QuerySet[Group] = group_restrict(user=user).select_related("note").filter(name__gt=after).order_by("name")
    if text:
        rows = rows.filter(Q(name__icontains=text) | Q(note__description__icontains=text))
    found = list(rows[: PAGE + 1])
    described = groups_described(groups=found[:PAGE])
    return Found(described, str(described[-1]["name"]) if len(found) > PAGE else "")
