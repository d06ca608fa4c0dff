"""Rules for addresses of Redis and of the Docker Engine, for portal and agents: Redis on another machine only with TLS,
an Engine only by its socket or with mutual TLS."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import parse_qsl, urlencode, urlsplit

ENGINE_CERTIFICATES = ("ca.pem", "cert.pem", "key.pem")
"""Files for mutual TLS with an Engine, named as Docker's own client names them."""
ENGINE_ANYHOW = "i_accept_that_every_job_can_become_root"
"""Value of ``BERTH_NODE_DOCKER_WITHOUT_TLS`` that allows an Engine open to anybody."""


class AddressInvalid(ValueError):
    """An address that must not be used. Its text is one sentence, without the address."""


def engine_guarded(url: str, *, has_certificates: bool) -> None:
    """Refuses an Engine that answers anybody who reaches it. Jobs of several tasks share the network of their server:
    an Engine they reach there makes them root. Raises AddressInvalid."""
    scheme = url.partition("://")[0]
    if scheme in {"unix", "http+unix"} or (scheme in {"tcp", "https"} and has_certificates):
        return
    raise AddressInvalid(
        "leads to the Docker Engine over the network without mutual TLS, and every job that reaches it there becomes "
        "root: use its socket (unix:///var/run/docker.sock) and let it listen nowhere else, or start it with "
        f"--tlsverify and name the folder with {', '.join(ENGINE_CERTIFICATES[:-1])} and {ENGINE_CERTIFICATES[-1]} in "
        f"BERTH_NODE_DOCKER_TLS; who insists sets BERTH_NODE_DOCKER_WITHOUT_TLS={ENGINE_ANYHOW}"
    )


def redis_is_local(url: str) -> bool:
    """Whether the address leads to this very machine."""
    host = urlsplit(url).hostname or "localhost"
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def redis_secured(url: str, ca: str = "") -> str:
    """The address with all TLS options that Redis's clients need: Kombu checks no certificate unless asked to. ``ca``:
    file of the authority that signed the server's certificate (empty: the system's). Raises AddressInvalid for what is
    no address of Redis, and for a connection that others could read or intercept."""
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
