"""Checks of addresses that an agent is given: of the portal and of the Docker Engine."""

from __future__ import annotations

from urllib.parse import urlsplit

WEB = ("http", "https")


def portal_address(text: str) -> str:
    """The address unchanged, if it is one. Raises ValueError, one sentence."""
    if fault := _fault(text, WEB):
        raise ValueError(f"{text!r} is no address of a portal, such as https://berth.example.org: {fault}")
    return text


def engine_address(text: str) -> str:
    """The address unchanged, if it is one. Raises ValueError, one sentence."""
    is_socket = text.startswith(("unix:///", "http+unix:///"))
    if not is_socket and (fault := _fault(text, ("unix", "tcp", *WEB))):
        raise ValueError(f"{text!r} is no address of a Docker Engine, such as unix:///var/run/docker.sock: {fault}")
    return text


def _fault(text: str, schemes: tuple[str, ...]) -> str:
    """What is wrong with an address of a host, and maybe of a port; empty: nothing."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return "its host is neither a name nor an address"
    if parts.scheme not in schemes:
        return f"it must begin with {', '.join(f'{one}://' for one in schemes[:-1])} or {schemes[-1]}://"
    if parts.scheme == "unix":
        return "it must name a file from / on"
    if not parts.hostname:
        return "it names no host"
    return "" if _has_port(text) else "its port is no number from 1 to 65535"


def _has_port(text: str) -> bool:
    """Whether its port is valid, or missing."""
    try:
        return urlsplit(text).port != 0
    except ValueError:
        return False
