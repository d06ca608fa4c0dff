"""People, groups and tokens."""

from __future__ import annotations

from datetime import datetime

from berth.model.base import Answer


class Me(Answer, frozen=True, kw_only=True):
    """The account behind the token, and the token's scope."""

    id: int
    username: str
    email: str
    role: str
    scope: str
    language: str = ""


class Token(Answer, frozen=True, kw_only=True):
    """A token without its secret; ``prefix`` is how it begins."""

    id: int
    name: str
    prefix: str
    scope: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


class NewToken(Token, frozen=True, kw_only=True):
    """A token just made; ``token`` is shown this once."""

    token: str


class InVc(Answer, frozen=True, kw_only=True):
    """A role in a virtual cluster."""

    name: str
    role: str


class User(Answer, frozen=True, kw_only=True):
    """An account; ``virtual_clusters`` with those that groups give."""

    username: str
    email: str
    role: str
    active: bool
    uid: int | None
    gid: int | None
    extra_gids: list[int]
    groups: list[str]
    virtual_clusters: list[InVc]
    joined_at: datetime


class Group(Answer, frozen=True, kw_only=True):
    """A group, and the roles that its members have by it."""

    name: str
    description: str
    member_count: int
    virtual_clusters: list[InVc]


class GroupDetail(Group, frozen=True, kw_only=True):
    """A group with its members' names."""

    members: list[str]


class ImportFault(Answer, frozen=True, kw_only=True):
    """A fault in a row of a table."""

    path: str
    message: str
    code: str
    line: int | None = None


class ImportRow(Answer, frozen=True, kw_only=True):
    """Outcome of one row."""

    line: int
    username: str
    created: bool
    role: str
    password: bool
    errors: list[ImportFault]


class Imported(Answer, frozen=True, kw_only=True):
    """Outcome of an import of accounts."""

    dry_run: bool
    created: int
    refused: int
    rows: list[ImportRow]
