"""Addresses of the environment: of the portal, of Redis, of a mail server, of mirrors; and networks."""

from __future__ import annotations

import os
import re
import ssl
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from redis import ConnectionPool

from nodes.protocol.addresses import AddressInvalid, redis_is_local, redis_secured
from portal.env.values import BadSetting, env_secret, read

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?")


def _is_host(name: str) -> bool:
    """A name of DNS, or an IP address."""
    try:
        return bool(_HOST.fullmatch(name) and ".." not in name or ip_address(name))
    except ValueError:
        return False


def _web(text: str) -> SplitResult:
    """``http(s)://host[:port]``, with whatever follows. Raises ValueError for anything else."""
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not _is_host(parts.hostname or "") or parts.port == 0:
        raise ValueError(text)
    return parts


def _origin(text: str) -> str:
    parts = _web(text.rstrip("/"))
    if parts.username is not None or parts.path or parts.query or parts.fragment:
        raise ValueError(text)
    return text.rstrip("/")


def env_url(name: str, default: str) -> str:
    """The address of a web server, ``http(s)://host[:port]``, without a slash at its end."""
    return read(name, default, _origin, "the portal's address alone, such as https://berth.example.org")


def env_issuer(name: str) -> str:
    """The address of a sign-in provider as it is written; empty: none."""

    def convert(text: str) -> str:
        return _web(text).geturl() and text if text else ""

    return read(name, "", convert, "the provider's address, such as https://id.example.org/realms/lab")


def _is_allowed_host(word: str) -> bool:
    if word.startswith("["):
        return word.endswith("]") and ":" in word and _is_host(word[1:-1])
    return word == "*" or ":" not in word and _is_host(word.removeprefix("."))


def env_hosts(name: str) -> list[str]:
    """Comma-separated names of a server: ``berth.example.org``, ``.example.org`` with what is below it, ``[::1]``,
    ``*``. None where it is not set."""

    def convert(text: str) -> list[str]:
        words = [word.strip() for word in text.split(",") if word.strip()]
        if not words or not all(_is_allowed_host(word) for word in words):
            raise ValueError(text)
        return words

    return read(name, [], convert, "names without port or path, separated by commas, such as berth.example.org")


def env_origins(name: str) -> list[str]:
    """Comma-separated ``http(s)://host[:port]``, of which the host may begin with ``*.``. None where it is not set."""

    def convert(text: str) -> list[str]:
        words = [word.strip() for word in text.split(",") if word.strip()]
        for word in words:
            _origin(word.replace("://*.", "://", 1))
        return [word.rstrip("/") for word in words]

    return read(name, [], convert, "origins separated by commas, such as https://berth.example.org")


def env_bind(name: str, default: str) -> str:
    """An address of this machine, or a name that it has."""

    def convert(text: str) -> str:
        if not _is_host(text):
            raise ValueError(text)
        return text

    return read(name, default, convert, "an address of this machine, such as 127.0.0.1 or 0.0.0.0")


def env_redis(name: str, default: str, *, ca: str, password: bool) -> str:
    """An address of Redis, with what its clients must be told of TLS. ``password``: it needs one where it leads to
    another machine. The value is secret, and no message shows it."""
    url = env_secret(name) or default
    try:
        secured = redis_secured(url, ca)
    except AddressInvalid as error:
        raise BadSetting(f"{name}: {error}.") from None
    if not _redis_takes(secured):
        raise BadSetting(
            f"{name}: must be a host, its port and the database's number, such as rediss://user:password@host:6380/0, "
            "and behind a ? only what redis-py knows."
        )
    if password and not redis_is_local(url) and not urlsplit(url).password:
        raise BadSetting(f"{name}: leads to another machine without a password: give the portal an account there.")
    return secured


def _redis_takes(url: str) -> bool:
    """Whether its clients can be made, which connect later."""
    try:
        ConnectionPool.from_url(url).make_connection()
        parts = urlsplit(url)
        number = parts.path.strip("/")
        return (not number or number.isdecimal()) and (not parts.hostname or _is_host(parts.hostname))
    except (ValueError, TypeError):
        return False


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


def env_networks(name: str) -> list[IPv4Network | IPv6Network]:
    """Comma-separated networks such as ``10.1.0.0/16``; a single address is a network of one."""

    def convert(text: str) -> list[IPv4Network | IPv6Network]:
        return [ip_network(word.strip()) for word in text.split(",") if word.strip()]

    return read(name, [], convert, "networks separated by commas, such as 10.1.0.0/16 or 192.0.2.7")


def env_mirrors(name: str) -> dict[str, str]:
    """Mirrors of image registries by the registry's host: ``mirror.example.org:5000`` of Docker Hub, or
    ``docker.io=mirror:5000,ghcr.io=mirror:5001``."""

    def is_place(text: str) -> bool:
        host, _, port = text.partition(":")
        return _is_host(host) and (":" not in text or port.isdecimal() and 0 < int(port) < 65536)

    def convert(text: str) -> dict[str, str]:
        found = {}
        for word in filter(None, (part.strip() for part in text.split(","))):
            host, _, mirror = word.rpartition("=")
            if not is_place(mirror) or not is_place(host or "docker.io"):
                raise ValueError(word)
            found[host or "docker.io"] = mirror
        return found

    return read(name, {}, convert, "a host such as mirror.example.org:5000, or registry=mirror separated by commas")


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
        if not _is_host(parts.hostname or "") or parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError(name)
    except (ValueError, KeyError):
        raise BadSetting(
            f"{name}: must be smtp://host, smtp+tls://user:password@host:587 or smtps://user:password@host:465."
        ) from None
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return True, MailServer(
        parts.hostname or "", port, user, password, parts.scheme == "smtp+tls", parts.scheme == "smtps"
    )
