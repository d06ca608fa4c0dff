"""Validates host names and addresses that servers report of themselves."""

from __future__ import annotations

import re
from ipaddress import ip_address

HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


def host_plain(host: str) -> str:
    """The host if it is a plain name or address, else empty; a node's word never becomes a scheme, a user, a path or a
    word of a command."""
    try:
        return str(ip_address("" if "%" in host else host))
    except ValueError:
        return host if HOST.fullmatch(host) else ""
