"""Requests to addresses that somebody typed: never to this network's own machines, unless the settings name them.

A name is resolved once, each of its addresses is judged, and the connection is made to the very address that was found
good: what the name means a moment later does not matter. No redirect is followed, no proxy of the environment used, the
answer is read to a small end, and all of it together has a deadline.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import time
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, urlsplit

import httpx
from django.utils.translation import gettext

from nodes.protocol.connecting import Endpoint, connection_fault
from portal.common.errors import Fault

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

CONNECT_S, READ_S, TOTAL_S = 5.0, 10.0, 20.0
MOST_READ = 64 * 1024
PORTS = {"http": 80, "https": 443}
CLOUD_HOST = ip_address("168.63.129.16")
"""By which machines at Azure ask for their own secrets; other clouds use link-local and shared addresses for it."""


class Undeliverable(Exception):
    """The request could not be made, or was not answered; its text says why, with the cure."""


def url_faults(url: str, allowed: Collection[Network]) -> Iterator[Fault]:
    """What is wrong with the address, without asking anybody. What a name stands for is judged when it is used."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        yield Fault("url", gettext("This is no address of the form https://host/path."), "invalid")
        return
    if parts.scheme not in PORTS or not host or port == 0 or not re.fullmatch(r"[\x21-\x7e]+", url):
        yield Fault("url", gettext("Must be https://host/path, in plain ASCII (a host's name as xn--…)."), "invalid")
    elif parts.username is not None or parts.password is not None:
        yield Fault("url", gettext("No user or password here: the receiver knows us by the signature."), "invalid")
    elif parts.fragment:
        yield Fault("url", gettext("What follows a # is never sent; leave it out."), "invalid")
    elif (address := _literal(host)) is not None and not address_good(address, allowed):
        message = gettext("%(address)s is no address of the internet, and not in BERTH_WEBHOOK_ALLOW.")
        yield Fault("url", message % {"address": address}, "invalid")


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def address_good(address: Address, allowed: Collection[Network]) -> bool:
    """Whether it belongs to somebody in the world, or to a network that the settings allow."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if any(address in network for network in allowed):
        return True
    if isinstance(address, IPv6Address) and (address.is_reserved or address.is_site_local or _carries(address)):
        return False
    return address.is_global and not address.is_multicast and address != CLOUD_HOST


def _carries(address: IPv6Address) -> bool:
    """Whether it stands for an IPv4 address, which may be any."""
    return address.sixtofour is not None or address.teredo is not None


def post(url: str, *, body: bytes, headers: Mapping[str, str], allowed: Collection[Network]) -> int:
    """The status of the answer. Raises Undeliverable."""
    parts = urlsplit(url)
    address = _address(parts, allowed)
    try:
        return asyncio.run(_post(parts, address, body, headers))
    except TimeoutError:
        raise Undeliverable(f"No answer within {TOTAL_S:g} s.") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise Undeliverable(_fault(error, parts)) from error


def _fault(error: Exception, parts: SplitResult) -> str:
    """Of the address no more than host and port: what follows may be a secret of the receiver's."""
    place = Endpoint(
        "the webhook's receiver", f"{parts.scheme}://{parts.netloc}", "the webhook's address", "SSL_CERT_FILE"
    )
    return connection_fault(error, place, now_ms=int(time.time() * 1000))


def _address(parts: SplitResult, allowed: Collection[Network]) -> Address:
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Undeliverable(_fault(error, parts)) from error
    addresses = [ip_address(str(place[4][0]).partition("%")[0]) for place in found]
    good = [one for one in addresses if address_good(one, allowed)]
    if not good:
        named = ", ".join(map(str, dict.fromkeys(addresses)))
        raise Undeliverable(f"{host} is {named}: not an address of the internet, and not in BERTH_WEBHOOK_ALLOW.")
    chosen = good[0]
    if parts.scheme == "http" and not any(chosen in network for network in allowed):
        raise Undeliverable("Without https only addresses of BERTH_WEBHOOK_ALLOW are used.")
    return chosen


@cache
def trusted() -> ssl.SSLContext:
    """The certificates that this machine trusts, read once: it takes as long as ten requests."""
    return ssl.create_default_context()


async def _post(parts: SplitResult, address: Address, body: bytes, headers: Mapping[str, str]) -> int:
    host = f"[{address}]" if address.version == 6 else str(address)
    target = parts._replace(netloc=f"{host}:{parts.port or PORTS[parts.scheme]}").geturl()
    named = {**headers, "Host": parts.netloc}
    timeout = httpx.Timeout(READ_S, connect=CONNECT_S)
    async with (
        asyncio.timeout(TOTAL_S),
        httpx.AsyncClient(timeout=timeout, follow_redirects=False, trust_env=False, verify=trusted()) as client,
        client.stream(
            "POST", target, content=body, headers=named, extensions={"sni_hostname": parts.hostname}
        ) as answer,
    ):
        read = 0
        async for piece in answer.aiter_raw():
            read += len(piece)
            if read > MOST_READ:
                break
        return answer.status_code
