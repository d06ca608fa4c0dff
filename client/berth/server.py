"""The server's address, and how to connect to it: the same for requests and websockets."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpx

from berth.errors import Misused
from berth.version import __version__

AGENT = f"berth-client/{__version__}"
LARGEST_MESSAGE = 2**24


@dataclass(frozen=True, slots=True)
class Server:
    """A server. ``url`` has no slash at its end. ``trust_env``: use proxies and certificates of the environment."""

    url: str
    token: str = field(default="", repr=False)
    ca_file: str | None = None
    trust_env: bool = True
    tls: ssl.SSLContext | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        url = self.url.strip().rstrip("/").removesuffix("/api/v1")
        parts = _parts(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise Misused(f"{self.url!r} is no address of a server: write it as https://berth.example.org")
        if parts.username is not None:
            raise Misused("the server's address must hold no user name or password")
        if not (self.token.isascii() and self.token.isprintable() and " " not in self.token):
            raise Misused("the token holds characters that no token has: copy it again, whole")
        object.__setattr__(self, "url", url)
        if parts.scheme == "https":
            object.__setattr__(self, "tls", self._context())

    def _context(self) -> ssl.SSLContext:
        try:
            if self.ca_file is not None:
                return ssl.create_default_context(cafile=self.ca_file)
            return httpx.create_ssl_context(trust_env=self.trust_env)
        except (OSError, ssl.SSLError) as error:
            raise Misused(f"the certificates in {self.ca_file or 'the environment'} cannot be read: {error}") from error

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def http(self, timeout_s: float) -> dict[str, Any]:
        """Options of httpx's clients. Redirects are not followed: the token is for this server alone."""
        return {
            "base_url": f"{self.url}/api/v1/",
            "headers": {**self.headers, "User-Agent": AGENT},
            "timeout": timeout_s,
            "trust_env": self.trust_env,
            # Without TLS the certificates of this machine are not read, which takes longer than a request.
            "verify": self.tls or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        }

    def socket(self) -> dict[str, Any]:
        """Options of a websocket's connection."""
        return {
            "additional_headers": self.headers,
            "user_agent_header": AGENT,
            "max_size": LARGEST_MESSAGE,
            "proxy": True if self.trust_env else None,
            **({"ssl": self.tls} if self.tls is not None else {}),
        }

    def socket_url(self, path: str) -> str:
        """The address of a websocket."""
        return f"ws{self.url.removeprefix('http')}{path}"


def _parts(url: str) -> SplitResult:
    """The parts of an address; empty ones where it cannot be read."""
    try:
        parts = urlsplit(url)
        return parts if parts.port != 0 else urlsplit("")
    except ValueError:
        return urlsplit("")
