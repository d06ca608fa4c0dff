"""Typed reading of the environment. A bad value stops the start with one sentence."""

from __future__ import annotations

import json
import os
import re
import ssl
from collections.abc import Callable, Collection
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from nodes.protocol import AddressInvalid, redis_is_local, redis_secured

Value = TypeVar("Value")

PERIODS = {"s": 1, "min": 60, "hour": 3600, "day": 86_400}
TRUE, FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}


class BadSetting(SystemExit):
    """A setting that cannot be used; its text names the variable, the value and what is allowed."""


def _read(name: str, default: Value, convert: Callable[[str], Value], allowed: str) -> Value:
    text = os.environ.get(name)
    if text is None:
        return default
    try:
        return convert(text.strip())
    except ValueError:
        raise BadSetting(f"{name}={text!r}: must be {allowed}.") from None


def env_str(name: str, default: str) -> str:
    """The variable's text, or the default where it is not set."""
    return os.environ.get(name, default)


def env_bool(name: str, default: bool) -> bool:
    """1/true/yes/on or 0/false/no/off."""

    def convert(text: str) -> bool:
        lowered = text.lower()
        if lowered in TRUE | FALSE:
            return lowered in TRUE
        raise ValueError(text)

    return _read(name, default, convert, "one of 1, 0, true, false, yes, no, on, off")


def env_int(name: str, default: int, *, least: int = 0) -> int:
    """A whole number not below ``least``."""

    def convert(text: str) -> int:
        number = int(text)
        if number < least:
            raise ValueError(text)
        return number

    return _read(name, default, convert, f"a whole number, at least {least}")


def env_word(name: str, default: str, allowed: Collection[str]) -> str:
    """One of the ``allowed`` words."""

    def convert(text: str) -> str:
        if text not in allowed:
            raise ValueError(text)
        return text

    return _read(name, default, convert, f"one of {', '.join(allowed)}")


def env_list(name: str, default: list[str]) -> list[str]:
    """Comma-separated words."""
    text = os.environ.get(name)
    return default if text is None else [word.strip() for word in text.split(",") if word.strip()]


def env_path(name: str, default: Path) -> Path:
    """An absolute path; ``~`` and relative ones are resolved from where the process starts."""
    return Path(os.environ.get(name) or default).expanduser().resolve()


def env_secret(name: str) -> str | None:
    """The variable, or the content of the file that its ``_FILE`` twin names, or None."""
    if name in os.environ:
        return os.environ[name]
    path = os.environ.get(f"{name}_FILE")
    if path is None:
        return None
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise BadSetting(f"{name}_FILE={path!r}: cannot be read ({error.strerror}).") from None


def env_redis(name: str, default: str, *, ca: str, password: bool) -> str:
    """An address of Redis, with what its clients must be told of TLS. ``password``: it needs one where it leads to
    another machine. The value is secret, and no message shows it."""
    url = env_secret(name) or default
    try:
        secured = redis_secured(url, ca)
    except AddressInvalid as error:
        raise BadSetting(f"{name}: {error}.") from None
    if password and not redis_is_local(url) and not urlsplit(url).password:
        raise BadSetting(f"{name}: leads to another machine without a password: give the portal an account there.")
    return secured


def env_authority(name: str, *, maybe: bool = False) -> str:
    """A file with certificates of authorities (PEM) that can be read; empty: not set, or, where it ``maybe`` has none,
    an empty file."""
    path = os.environ.get(name, "")
    if not path:
        return ""
    try:
        if maybe and Path(path).stat().st_size == 0:
            return ""
        ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise BadSetting(f"{name}={path!r}: must be a file of certificates in PEM ({error}).") from None
    return str(Path(path).resolve())


def env_rate(name: str, default: str) -> tuple[int, int]:
    """A count per time, such as ``10/min``, as (count, seconds)."""

    def convert(text: str) -> tuple[int, int]:
        count, _, period = text.partition("/")
        if int(count) < 1 or period not in PERIODS:
            raise ValueError(text)
        return int(count), PERIODS[period]

    allowed = f"a count per {', '.join(PERIODS)}, such as {default}"
    return _read(name, convert(default), convert, allowed)


def env_networks(name: str) -> list[IPv4Network | IPv6Network]:
    """Comma-separated networks such as ``10.1.0.0/16``; a single address is a network of one."""

    def convert(text: str) -> list[IPv4Network | IPv6Network]:
        return [ip_network(word.strip()) for word in text.split(",") if word.strip()]

    return _read(name, [], convert, "networks separated by commas, such as 10.1.0.0/16 or 192.0.2.7")


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
        return {
            group: tuple(map(Grant.read, given if isinstance(given, list) else [given]))
            for group, given in dict(json.loads(text)).items()
        }

    text = env_secret(name)
    try:
        return convert(text) if text else {}
    except (ValueError, TypeError):
        raise BadSetting(
            f"{name}={text!r}: must be a JSON object of groups, each with admin, auditor, group:NAME, lead:VC, "
            'member:VC or a list of them, such as {"vision-leads": "lead:vision"}.'
        ) from None


_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?")


def env_mirrors(name: str) -> dict[str, str]:
    """Mirrors of image registries by the registry's host: ``mirror.example.org:5000`` of Docker Hub, or
    ``docker.io=mirror:5000,ghcr.io=mirror:5001``."""

    def convert(text: str) -> dict[str, str]:
        found = {}
        for word in filter(None, (part.strip() for part in text.split(","))):
            host, _, mirror = word.rpartition("=")
            if not _HOST.fullmatch(mirror) or not _HOST.fullmatch(host or "docker.io"):
                raise ValueError(word)
            found[host or "docker.io"] = mirror
        return found

    return _read(name, {}, convert, "a host such as mirror.example.org:5000, or registry=mirror separated by commas")


class MailServer(NamedTuple):
    """Where e-mail goes, and how: ``starttls`` from plain to encrypted, ``tls`` from the first byte."""

    host: str = ""
    port: int = 25
    user: str = ""
    password: str = ""
    starttls: bool = False
    tls: bool = False


_MAIL_PORTS = {"smtp": 25, "smtp+tls": 587, "smtps": 465}


def env_mail(name: str) -> tuple[bool, MailServer]:
    """``smtp://host``, ``smtp+tls://user:password@host:587`` (STARTTLS) or ``smtps://…`` (TLS), and whether it is set.
    The value is secret, and no message shows it."""
    text = env_secret(name)
    if not text:
        return False, MailServer()
    try:
        parts = urlsplit(text.strip())
        port = parts.port or _MAIL_PORTS[parts.scheme]
        if not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError(name)
    except (ValueError, KeyError):
        raise BadSetting(
            f"{name}: must be smtp://host, smtp+tls://user:password@host:587 or smtps://user:password@host:465."
        ) from None
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return True, MailServer(parts.hostname, port, user, password, parts.scheme == "smtp+tls", parts.scheme == "smtps")
