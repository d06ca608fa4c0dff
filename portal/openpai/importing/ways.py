"""OpenPAI's answers, from a running cluster or from files that hold them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import yaml

from portal.common.plain_yaml import UniqueLoader

USERS, GROUPS, VCS, STORAGES = "users", "groups", "virtual-clusters", "storages"
KINDS = (VCS, GROUPS, USERS, STORAGES)
CONFIGURATION = "services-configuration"
ENDINGS = (".json", ".yaml", ".yml")
TIMEOUT_S = 30.0

MOST_VALUES, MOST_PATH = 1_000_000, 200
_BAD = frozenset(map(chr, (0, *range(0xD800, 0xE000))))

Answers = dict[str, Any]
"""By kind what ``GET /api/v2/<kind>`` answers; of storages a list of what ``GET /api/v2/storages/<name>`` answers."""


class Unreadable(Exception):
    """The answers cannot be had; the text says from where, and why."""


# ---------------------------------------------------------------- a running cluster


def from_server(url: str, token: str) -> Answers:
    """Ask the REST server at this address, which reads as an administrator. Raises Unreadable."""
    base = url.rstrip("/").removesuffix("/api/v2").removesuffix("/rest-server")
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=f"{base}/rest-server/api/v2/", headers=headers, timeout=TIMEOUT_S) as client:
        answers = {kind: _get(client, kind) for kind in (VCS, GROUPS, USERS)}
        listed = _get(client, STORAGES)
        rows = listed.get(STORAGES, []) if isinstance(listed, dict) else []
        names = [str(row["name"]) for row in rows if isinstance(row, dict) and "name" in row]
        answers[STORAGES] = [_get(client, f"{STORAGES}/{quote(name, safe='')}") for name in names]
    return answers


def _get(client: httpx.Client, path: str) -> Any:
    try:
        answer = client.get(path)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unreadable(f"{client.base_url} does not answer: {error or type(error).__name__}.") from error
    if answer.status_code in {401, 403}:
        raise Unreadable(f"{answer.url} answers {answer.status_code}: the token must be one of an administrator.")
    try:
        if answer.status_code == httpx.codes.OK:
            return _checked(answer.json(), str(answer.url))
    except (ValueError, RecursionError):
        pass
    raise Unreadable(f"{answer.url} answers {answer.status_code} and no JSON: is it the address of an OpenPAI cluster?")


# ---------------------------------------------------------------- files


def from_files(paths: Iterable[Path]) -> Answers:
    """The files named ``users``, ``groups``, ``virtual-clusters``, ``storages`` (a saved answer each) and
    ``services-configuration`` (of OpenPAI's own), as JSON or YAML; of a folder those that are in it. Raises
    Unreadable."""
    answers: Answers = {}
    for path in _files(paths):
        found = _read(path)
        if path.stem == CONFIGURATION:
            for kind, value in _of_configuration(path, found).items():
                answers.setdefault(kind, value)
        else:
            rows = found.get(STORAGES) if path.stem == STORAGES and isinstance(found, dict) else None
            answers[path.stem] = found if rows is None else rows
    if not answers:
        names = ", ".join((*KINDS, CONFIGURATION))
        raise Unreadable(f"There is none of the files {names} ({', '.join(ENDINGS)}).")
    return answers


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    known = {*KINDS, CONFIGURATION}
    for path in paths:
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        for file in inside:
            if file.suffix in ENDINGS and file.stem in known:
                yield file
            elif not path.is_dir():
                raise Unreadable(f"{path}: its name says not what it holds; call it one of {', '.join(sorted(known))}.")


def _read(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
        return _checked(json.loads(text) if path.suffix == ".json" else _yaml(text), str(path))
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        words = " ".join(str(error).split())[:200]
        raise Unreadable(f"{path} is no {path.suffix[1:].upper()}: {words}.") from error


def _yaml(text: str) -> Any:
    return yaml.load(text, Loader=UniqueLoader)  # noqa: S506  # a safe loader, and less


def _checked(found: Any, where: str) -> Any:
    """The same, once all of it can be kept: a database takes no zero byte and no half of a character, and a file of a
    kilobyte whose parts stand for one another may say more than a memory holds. Raises Unreadable."""
    waiting, count = [("", found)], 0
    while waiting:
        path, value = waiting.pop()
        count += 1
        if count > MOST_VALUES:
            raise Unreadable(f"{where} says more than {MOST_VALUES:,} things.")
        if isinstance(value, str) and not _BAD.isdisjoint(value):
            raise Unreadable(f"{where}: {path.lstrip('.') or 'it'} holds a character that cannot be kept.")
        if isinstance(value, Mapping):
            waiting += [(path, key) for key in value]
            waiting += [(f"{path}.{key}"[:MOST_PATH], one) for key, one in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{path}[{number}]"[:MOST_PATH], one) for number, one in enumerate(value)]
    return found


def _of_configuration(path: Path, found: Any) -> Answers:
    """Groups stand under ``authentication``, virtual clusters in the scheduler's own configuration."""
    if not isinstance(found, Mapping):
        raise Unreadable(f"{path} holds no settings of services.")
    manager = _inside(found, "authentication", "group-manager")
    listed = manager.get("grouplist") or []
    if not isinstance(listed, list):
        raise Unreadable(f"{path}: group-manager.grouplist is no list.")
    rows = [manager.get("admin-group"), manager.get("default-group"), *listed]
    scheduler = _inside(found, "hivedscheduler")
    config = scheduler.get("config")
    try:
        cells = _checked(_yaml(config), str(path)) if isinstance(config, str) else config
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Unreadable(f"{path}: hivedscheduler.config is no YAML.") from error
    vcs = _inside(cells if isinstance(cells, Mapping) else {}, "virtualClusters")
    told: Answers = {GROUPS: [row for row in rows if row]} if manager else {}
    return {**told, **({VCS: dict(vcs)} if vcs else {})}


def _inside(found: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        inner = found.get(name)
        found = inner if isinstance(inner, Mapping) else {}
    return found
