"""What the groups of a sign-in provider give, from the environment."""

from __future__ import annotations

import json
from typing import NamedTuple

from portal.env.values import BadSetting, env_secret


class Grant(NamedTuple):
    """What a group of a sign-in provider gives: ``admin``, ``auditor``; or ``group``, ``lead``, ``member`` of what
    ``name`` says."""

    kind: str
    name: str = ""

    @classmethod
    def read(cls, text: object) -> Grant:
        """``admin``, ``auditor``, ``group:NAME``, ``lead:VC`` or ``member:VC``. Raises ValueError for anything else."""
        kind, _, name = str(text).partition(":")
        if (kind in {"admin", "auditor"} and not name) or (kind in {"group", "lead", "member"} and name):
            return cls(kind, name)
        raise ValueError(text)


def env_grants(name: str) -> dict[str, tuple[Grant, ...]]:
    """What each group of a sign-in provider gives, as a JSON object: the group's name, and a grant or a list of them
    (see ``Grant.read``)."""

    def convert(text: str) -> dict[str, tuple[Grant, ...]]:
        told = json.loads(text)
        if not isinstance(told, dict):
            raise TypeError(text)
        return {
            group: tuple(map(Grant.read, given if isinstance(given, list) else [given]))
            for group, given in told.items()
        }

    text = env_secret(name)
    try:
        return convert(text) if text else {}
    except (ValueError, TypeError, RecursionError):
        raise BadSetting(
            f"{name}={text!r}: must be a JSON object of groups, each with admin, auditor, group:NAME, lead:VC, "
            'member:VC or a list of them, such as {"vision-leads": "lead:vision"}.'
        ) from None
