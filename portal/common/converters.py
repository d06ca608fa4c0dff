"""Parts of addresses: what cannot be a name is not found, before a database sees it."""

from __future__ import annotations


class SecretName:
    """How a job file calls a stored secret."""

    regex = "[A-Za-z_][A-Za-z0-9_-]{0,63}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


class CodeName:
    """How a job file calls an uploaded folder of code."""

    regex = "sha256:[0-9a-f]{64}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


class Server:
    """A host, with its port where it is another than usual; in small letters, as it is compared."""

    regex = "[A-Za-z0-9][A-Za-z0-9.-]{0,252}(?::[0-9]{1,5})?"

    def to_python(self, value: str) -> str:
        return value.lower()

    def to_url(self, value: str) -> str:
        return value


class Name:
    """The name of a node or of a virtual cluster."""

    regex = "[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


class Person:
    """The name of a user or of a group."""

    regex = "[A-Za-z0-9_.-]{1,150}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value
