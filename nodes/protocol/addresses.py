"""Addresses of Redis, as portal and agents take them: beyond the machine itself only with TLS, and TLS always checks
whom it talks to."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import parse_qsl, urlencode, urlsplit


class AddressInvalid(ValueError):
    """An address of Redis that must not be used. Its text is one sentence, without the address."""


def redis_is_local(url: str) -> bool:
    """Whether it leads to this very machine."""
    host = urlsplit(url).hostname or "localhost"
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def redis_secured(url: str, ca: str = "") -> str:
    """The address with all that Redis's clients need to be told of TLS: Kombu checks no certificate unless asked to.
    ``ca``: file of the authority that signed the server's (empty: the system's). Raises AddressInvalid for what is no
    address of Redis, and for a way that others could listen on or walk."""
    try:
        parts = urlsplit(url)
        has_server = parts.scheme in {"redis", "rediss"} and bool(parts.hostname or parts.scheme == "redis")
        has_server = has_server and (parts.port is None or parts.port > 0)
    except ValueError:
        has_server = False
    if not has_server:
        raise AddressInvalid("must be redis://:password@127.0.0.1:6379/0 or rediss://user:password@host:6380/0")
    if parts.scheme == "rediss":
        asked = dict(parse_qsl(parts.query))
        if asked.get("ssl_cert_reqs", "required") != "required" or asked.get("ssl_check_hostname", "true") != "true":
            raise AddressInvalid("TLS without a check of the certificate protects nothing: leave ssl_… out of it")
        told = {"ssl_cert_reqs": "required", "ssl_check_hostname": "true"} | ({"ssl_ca_certs": ca} if ca else {})
        return parts._replace(query=urlencode(asked | told)).geturl()
    if not redis_is_local(url):
        raise AddressInvalid(
            "leads to another machine without TLS: let Redis listen with TLS there, and write rediss://"
        )
    return url
