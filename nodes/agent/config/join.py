"""``python -m nodes join URL TOKEN``: this server makes a key, registers its public half with a join token, and keeps
what it is told. A second run is the same server. An agent that is told where does it at its first start by itself."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import socket
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import requests
from urllib3.exceptions import HTTPError, InsecureRequestWarning

from nodes.agent.clock import portal_skew_s
from nodes.agent.config.addresses import portal_address
from nodes.agent.config.options import (
    SETTINGS_NAME,
    OptionInvalid,
    authority_check,
    key_make,
    key_path_load,
    name_check,
    state_dir_load,
)
from nodes.agent.write_error import cannot_write
from nodes.protocol.connecting import Endpoint, connection_fault
from nodes.protocol.envelope import EnvelopeForged, NodeKey

CA_NAME = "redis-ca.pem"
PORTAL_CA_NAME = "portal-ca.pem"
AUTHORITY_MOST = 100_000
"""Most bytes of an authority's file."""
ANSWER_S = 30
SKEW_MOST_S = 5
TOLD = tuple(f"BERTH_NODE_{one}" for one in (
    "NAME", "CLUSTER", "RACK", "REDIS_URL", "REDIS_CA", "PORTAL_URL", "PORTAL_PUBLIC_KEY",
))  # fmt: skip
"""What a portal may set here: who is who, and where. What this server allows is its administrator's own."""
ENVIRONMENT = {
    "url": "BERTH_JOIN_URL",
    "token": "BERTH_JOIN_TOKEN",
    "name": "BERTH_NODE_NAME",
    "ca": "BERTH_JOIN_CA",
    "ca_sha256": "BERTH_JOIN_CA_SHA256",
}


class JoinFailed(Exception):
    """The server could not join. Its text is one sentence."""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """The portal's address, the join token, this server's name, and the file of the authority of the portal's
    certificate (empty: the system's), or the SHA-256 (hex) of the file in which the portal has it."""

    url: str
    token: str
    name: str
    ca: str
    ca_sha256: str


def join(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """Joins; returns the sentence to print. Raises JoinFailed, OptionInvalid."""
    request, rest = _parse(argv, environ)
    state = state_dir_load(rest, environ)
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = key_make(key_path_load(rest, environ))
    except OSError as error:
        raise JoinFailed(cannot_write(error, state)) from error
    with _with_authority(request, state) as request:
        return _join(request, state, key)


def _join(request: JoinRequest, state: Path, key: NodeKey) -> str:
    name, environment, authority = _register(request, key)
    try:
        if authority:
            _write(state / CA_NAME, authority + "\n")
            environment["BERTH_NODE_REDIS_CA"] = str(state / CA_NAME)
        if request.ca:
            _write(state / PORTAL_CA_NAME, Path(request.ca).read_text())
            environment["BERTH_NODE_PORTAL_CA"] = str(state / PORTAL_CA_NAME)
        _write(state / SETTINGS_NAME, "".join(f"{one}={value}\n" for one, value in environment.items()))
    except OSError as error:
        raise JoinFailed(cannot_write(error, state)) from error
    return f"{name} has joined {request.url}; its settings are in {state / SETTINGS_NAME}."


def join_at_start(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """Joins at the agent's start where the environment says how and this server has not; returns the sentence to print,
    or nothing. Raises JoinFailed, OptionInvalid."""
    state = state_dir_load(argv, environ)
    if not environ.get(ENVIRONMENT["url"]) or (state / SETTINGS_NAME).exists():
        return ""
    return join(["--state-dir", str(state)], environ)


def _parse(argv: Sequence[str], environ: Mapping[str, str]) -> tuple[JoinRequest, list[str]]:
    parser = argparse.ArgumentParser(prog="berth-node join", description=__doc__)
    parser.add_argument("url", nargs="?", help="the portal's address (BERTH_JOIN_URL)")
    parser.add_argument("token", nargs="?", help="a join token (BERTH_JOIN_TOKEN, or a file: BERTH_JOIN_TOKEN_FILE)")
    parser.add_argument("--name", help="this server's name; default: its host name (BERTH_NODE_NAME)")
    parser.add_argument("--ca", help="file of the authority (PEM) of the portal's certificate (BERTH_JOIN_CA)")
    parser.add_argument(
        "--ca-sha256", metavar="HEX",
        help="in its place: the SHA-256 of that authority's file; it is fetched from the portal (BERTH_JOIN_CA_SHA256)",
    )  # fmt: skip
    parser.add_argument("--state-dir", help="folder of the agent's own state (BERTH_NODE_STATE_DIR)")
    flags = parser.parse_args(list(argv))
    found = {one: getattr(flags, one) or _from(variable, environ) for one, variable in ENVIRONMENT.items()}
    for one in ("url", "token"):
        if not found[one]:
            raise JoinFailed(f"{ENVIRONMENT[one]} is not set: run berth-node join URL TOKEN.")
    try:
        portal_address(found["url"])
    except ValueError as error:
        raise OptionInvalid(ENVIRONMENT["url"], str(error)) from error
    if found["ca"]:
        authority_check("BERTH_JOIN_CA", Path(found["ca"]))
    if found["ca_sha256"] and not re.fullmatch(r"[0-9a-f]{64}", found["ca_sha256"]):
        raise OptionInvalid("BERTH_JOIN_CA_SHA256", "must be the 64 digits that stand in the join line")
    name = found["name"] or _host_name()
    try:
        name_check(name)
    except ValueError as error:
        raise JoinFailed(f"{error}; give one with --name.") from error
    rest = ["--state-dir", flags.state_dir] if flags.state_dir else []
    return JoinRequest(found["url"].rstrip("/"), found["token"], name, found["ca"], found["ca_sha256"]), rest


def _from(variable: str, environ: Mapping[str, str]) -> str:
    path = environ.get(f"{variable}_FILE")
    if variable in environ or path is None:
        return environ.get(variable, "")
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise OptionInvalid(f"{variable}_FILE", f"{path} cannot be read: {error.strerror}") from error


def _host_name() -> str:
    """The host name, as far as it can be a node's name."""
    return re.sub(r"[^a-z0-9.-]+", "-", socket.gethostname().lower()).strip("-.")[:63]


@contextmanager
def _with_authority(request: JoinRequest, state: Path) -> Iterator[JoinRequest]:
    """The request with the file of the authority that the digest names. Raises JoinFailed."""
    if request.ca or not request.ca_sha256:
        yield request
        return
    text, path = _authority(request), state / f".{PORTAL_CA_NAME}.fetched"
    try:
        _write(path, text)
    except OSError as error:
        raise JoinFailed(cannot_write(error, state)) from error
    try:
        authority_check("BERTH_JOIN_CA_SHA256", path)
        yield replace(request, ca=str(path))
    finally:
        path.unlink()


def _authority(request: JoinRequest) -> str:
    """Fetches the authority from whoever answers, and accepts only the one that the join line names; nothing is sent
    before. Raises JoinFailed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InsecureRequestWarning)
            answer = requests.get(
                f"{request.url}/authority.crt", timeout=ANSWER_S, allow_redirects=False, stream=True,
                verify=False,  # noqa: S501  # the digest is the check
            )  # fmt: skip
            text: bytes = answer.raw.read(AUTHORITY_MOST, decode_content=True)
    except (requests.RequestException, HTTPError, OSError) as error:
        raise JoinFailed(connection_fault(error, _endpoint(request), now_ms=int(time.time() * 1000))) from error
    if hashlib.sha256(text).hexdigest() != request.ca_sha256:
        raise JoinFailed(
            f"{request.url} has another authority than the join line names: copy the line anew from the portal's page; "
            "if that is no help, somebody else answers there."
        )
    return text.decode("ascii", errors="replace")


def _register(request: JoinRequest, key: NodeKey) -> tuple[str, dict[str, str], str]:
    """Registers; this server's name, its agent's variables, and the authority of Redis's certificate (PEM; empty: the
    system's)."""
    answer = _ask(request, {"token": request.token, "name": request.name, "public_key": key.public})
    skew = portal_skew_s(answer.headers.get("Date"), now_ms=int(time.time() * 1000))
    if skew is not None and abs(skew) > SKEW_MOST_S:
        apart = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the portal's"
        print(
            f"berth-node: this server's clock is {apart}: "
            "set it right (a time server: timedatectl set-ntp true), or orders and reports are refused.",
            file=sys.stderr,
        )
    try:
        body = answer.json()
        details = json.loads(key.unseal(body["sealed"]))
        return str(body["name"]), _checked_environment(details["environment"]), str(details.get("redis_ca") or "")
    except (ValueError, KeyError, TypeError, AttributeError, EnvelopeForged) as error:
        raise JoinFailed(f"{request.url} answers, but not as a portal of Berth does: correct the address.") from error


def _checked_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a portal may set. Raises ValueError for a value that does not fit on a line."""
    taken = {one: str(environment[one]) for one in TOLD if one in environment}
    if not all(value.isprintable() for value in taken.values()):
        raise ValueError("no line")
    return taken


def _ask(request: JoinRequest, body: Mapping[str, str]) -> requests.Response:
    try:
        answer = requests.post(
            f"{request.url}/api/v1/join", json=body, timeout=ANSWER_S, allow_redirects=False, verify=request.ca or True
        )
    except (requests.RequestException, HTTPError, OSError) as error:
        raise JoinFailed(connection_fault(error, _endpoint(request), now_ms=int(time.time() * 1000))) from error
    if answer.status_code == 201:
        return answer
    raise JoinFailed(_refusal(answer, request))


def _endpoint(request: JoinRequest) -> Endpoint:
    return Endpoint("the portal", request.url, "the address", "BERTH_JOIN_CA")


def _refusal(answer: requests.Response, request: JoinRequest) -> str:
    try:
        body = answer.json()
        faults = [str(one["message"]) for one in body.get("errors", ())]
        detail = " ".join(faults) or str(body["detail"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{request.url} answers {answer.status_code}, not as a portal of Berth does: correct the address."
    return detail


def _write(path: Path, text: str) -> None:
    """Replaces a file of mode 0600 atomically."""
    fresh = path.with_name(f".{path.name}.new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.chmod(0o600)
    fresh.replace(path)
