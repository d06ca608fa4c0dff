"""What follows from ``BERTH_URL``: the name, the ports and the kind of certificate."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from portal.compose.refusal import CannotStart

CERTIFICATES = ("automatic", "internal", "files")
_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
# Names that no public authority signs: RFC 6762, RFC 8375, RFC 6761, ICANN's .internal, and what offices use.
_INTERNAL = ("local", "internal", "localhost", "home.arpa", "lan", "intranet", "test", "corp", "home", "private")


@dataclass(frozen=True, slots=True)
class Address:
    """``certificate``: ``automatic`` (of a public authority), ``internal`` (of the stack's own), ``files``."""

    host: str
    https_port: int
    http_port: int
    redis_port: int
    certificate: str

    @property
    def url(self) -> str:
        port = "" if self.https_port == 443 else f":{self.https_port}"
        return f"https://{self.bracketed}{port}"

    @property
    def bracketed(self) -> str:
        """The host as addresses have it."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def is_number(self) -> bool:
        """Whether the host is an IP address."""
        return _is_number(self.host)


def address_read(environ: Mapping[str, str]) -> Address:
    """From ``BERTH_URL``, ``BERTH_HTTPS_PORT``, ``BERTH_HTTP_PORT``, ``BERTH_REDIS_PORT`` and
    ``BERTH_CERTIFICATE``. Raises CannotStart."""
    url = environ.get("BERTH_URL", "").strip()
    if not url:
        raise CannotStart(
            "BERTH_URL is not set: write the portal's address into .env, such as https://gpu.example.org "
            "(on a GPU server start the agent alone:  docker compose --profile node up -d agent)."
        )
    host, port = _parts(url)
    https_port = _port(environ, "BERTH_HTTPS_PORT", 443)
    http_port = _port(environ, "BERTH_HTTP_PORT", 80)
    if port != https_port:
        raise CannotStart(
            f"BERTH_URL={url!r} names port {port} and the stack listens on {https_port}: set BERTH_HTTPS_PORT={port}."
        )
    redis_port = _port(environ, "BERTH_REDIS_PORT", 6380)
    if len({http_port, https_port, redis_port}) != 3:
        raise CannotStart("BERTH_HTTP_PORT, BERTH_HTTPS_PORT and BERTH_REDIS_PORT: give each its own.")
    return Address(host, https_port, http_port, redis_port, _certificate(environ, host))


def _parts(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port or 443
    except ValueError:
        host, port = "", 0
        parts = urlsplit("")
    known = _is_number(host) or (len(host) <= 253 and _NAME.fullmatch(host))
    plain = parts.path in ("", "/") and not parts.query and not parts.fragment and "@" not in parts.netloc
    if parts.scheme != "https" or not known or not plain:
        raise CannotStart(
            f"BERTH_URL={url!r}: must be https:// and a name, without a path, such as https://gpu.example.org."
        )
    return host, port


def _port(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise CannotStart(f"{name}={text!r}: must be a port from 1 to 65535.")
    return int(text)


def _certificate(environ: Mapping[str, str], host: str) -> str:
    chosen = environ.get("BERTH_CERTIFICATE", "")
    if chosen and chosen not in CERTIFICATES:
        raise CannotStart(f"BERTH_CERTIFICATE={chosen!r}: must be one of {', '.join(CERTIFICATES)}.")
    internal = _is_internal(host)
    if chosen == "automatic" and internal:
        raise CannotStart(
            f"BERTH_CERTIFICATE=automatic: no public authority signs {host}; say internal, or files for your own."
        )
    return chosen or ("internal" if internal else "automatic")


def _is_internal(host: str) -> bool:
    """Whether no public authority would sign it."""
    return _is_number(host) or "." not in host or any(host.endswith(f".{end}") for end in _INTERNAL)


def _is_number(host: str) -> bool:
    with suppress(ValueError):
        ip_address(host)
        return True
    return False
