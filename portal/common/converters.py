"""Parts of addresses: what cannot be a name is not found, before a database sees it."""

from __future__ import annotations


class Name:
    """The name of a node or of a virtual cluster."""

    regex = "[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value
