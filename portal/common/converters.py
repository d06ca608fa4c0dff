"""URL path converters: what cannot be a valid name is a 404 before any query."""

from __future__ import annotations


class SecretName:
    """The name of a stored secret, as in a job file."""

    regex = "[A-Za-z_][A-Za-z0-9_-]{0,63}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


class CodeName:
    """The name of an uploaded code folder, as in a job file."""

    regex = "sha256:[0-9a-f]{64}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


class Server:
    """A host, with a port unless it is the default; lower-cased, as it is compared."""

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
