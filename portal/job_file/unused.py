"""Keys of a job file that nothing reads, according to our schemas. Those where further keys are allowed have no effect
and are reported; those that ask for rights are refused, so that nobody believes to have them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, NamedTuple

from portal.job_file.loader import load
from portal.job_file.problems import Path, path_text, short
from portal.job_file.raw import Raw
from portal.job_file.schema import schema_job
from portal.job_file.wordings import UNUSED, UNUSED_GUESSED, UNUSED_MORE

MOST_TOLD = 20
FREE = ("parameters", "secrets")
"""Sections with user-defined keys."""
RIGHTS = frozenset(
    {
        *("privileged", "privilegedmode", "devices", "device", "volumedevices", "devicecgrouprules"),
        *("capadd", "addcapabilities", "capabilities", "linuxcapabilities"),
        *("securitycontext", "podsecuritycontext", "securityopt", "securityopts", "securityoptions"),
        *("hostpid", "hostipc", "hostnetwork", "hostuts", "hostusers", "usehostnetwork"),
        *("seccomp", "seccompprofile", "apparmor", "apparmorprofile", "selinux", "selinuxoptions"),
        *("volumes", "volume", "volumemounts", "volumesfrom", "mounts", "mount", "binds", "bindmounts"),
        *("hostpath", "hostpaths", "hostpathvolumes", "cgroupparent", "sysctls", "sysctl"),
        *("runasuser", "runasgroup", "runasroot", "allowprivilegeescalation"),
        *("serviceaccount", "serviceaccountname"),
    }
)
"""Key names, reduced to their lowercase letters."""
OF_HOST = frozenset(
    {"pid", "ipc", "uts", "net", "network", "userns", "cgroupns"}
    | {f"{name}mode" for name in ("pid", "ipc", "uts", "net", "network", "userns", "cgroupns")}
)
"""Keys that ask for a right only if they name the host's namespace, or another container's."""
_FLAGS = re.compile(
    r"--(privileged|cap-add|device|security-opt|volume|volumes-from|mount|(pid|ipc|uts|net|network|userns)[= ]+host)\b"
)
_NOTHING = frozenset({"", "false", "no", "off", "none", "0"})


class Unused(NamedTuple):
    """An unread key, its value, and the keys that are read in its place."""

    path: Path
    value: Any
    known: tuple[str, ...]


def unused_keys(source: str | bytes) -> list[str]:
    """Hints on a valid file: a sentence for each key that has no effect, at most ``MOST_TOLD`` and one."""
    document = load(source)
    told: list[str] = []
    found = list(unused(document.value))
    for one in found[:MOST_TOLD]:
        line = document.line(one.path)
        where = path_text(one.path) + (f" (line {line})" if line else "")
        guess = get_close_matches(short(str(one.path[-1])), one.known, 1)
        told.append(UNUSED_GUESSED(key=where, guess=guess[0]) if guess else UNUSED(key=where))
    more = len(found) - MOST_TOLD
    return told + ([UNUSED_MORE(number=more)] if more > 0 else [])


def unused(job: Raw) -> Iterator[Unused]:
    """Unread keys of a file of any shape; not those below them."""
    return _walk(job, [_schema()], ())


def rights_asked(job: Raw) -> Iterator[Path]:
    """Paths at which unread keys ask for rights."""
    for one in unused(job):
        yield from _asked(one.path, one.value)


@cache
def _schema() -> dict[str, Any]:
    return schema_job()


def _walk(value: Any, schemas: Iterable[Mapping[str, Any]], path: Path) -> Iterator[Unused]:
    known = [part for schema in schemas for part in _parts(schema, value)]
    if isinstance(value, list):
        items = [schema["items"] for schema in known if "items" in schema]
        for index, item in enumerate(value):
            yield from _walk(item, items, (*path, index)) if items else ()
    elif isinstance(value, dict) and path[:1] not in {(name,) for name in FREE}:
        yield from _walk_mapping(value, known, path)


def _walk_mapping(value: Raw, known: list[Mapping[str, Any]], path: Path) -> Iterator[Unused]:
    refused = any(schema.get("additionalProperties") is False for schema in known)  # refused by the schema
    names = tuple(name for schema in known for name in schema.get("properties", {}))
    for key, item in value.items():
        read = [schema["properties"][key] for schema in known if key in schema.get("properties", {})]
        read = read or [more for schema in known if isinstance(more := schema.get("additionalProperties"), dict)]
        if read and all(one.get("x-unused") for one in read) or not (read or refused):
            yield Unused((*path, key), item, () if read else names)
        elif read:
            yield from _walk(item, read, (*path, key))


def _parts(schema: Mapping[str, Any], value: Any) -> Iterator[Mapping[str, Any]]:
    """The schema, and those that apply with it to this value."""
    if str(schema.get("$ref", "")).startswith("#/$defs/"):
        yield from _parts(_schema()["$defs"][schema["$ref"].rpartition("/")[2]], value)
    elif "$ref" in schema:
        yield {"additionalProperties": False}  # extras.berth, which refuses every unknown key
    else:
        yield schema
        for one in schema.get("allOf", ()):
            if "if" not in one or _holds(one["if"], value):
                yield from _parts(one.get("then", one), value)


def _holds(condition: Mapping[str, Any], value: Any) -> bool:
    """Whether a schema's `if` holds; here it always lists values of some keys."""
    return isinstance(value, dict) and all(
        value.get(key) in (rule["enum"] if "enum" in rule else [rule["const"]])
        for key, rule in condition["properties"].items()
    )


def _asked(path: Path, value: Any) -> Iterator[Path]:
    """Paths in an unread value that ask for rights: by a key's name, however written, or as a Docker option."""
    if _is_right(str(path[-1]), value) or (isinstance(value, str) and _FLAGS.search(value)):
        yield path
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _asked((*path, key), item)


def _is_right(key: str, value: Any) -> bool:
    text = str(value).strip().casefold() if isinstance(value, str | int | float) else ""
    if not value or text in _NOTHING and not isinstance(value, dict | list):
        return False
    names = {re.sub(r"[^a-z]", "", part.casefold()) for part in (key, *re.split(r"[./]", key))}
    of_host = text == "host" or text.startswith(("container:", "ns:"))
    return bool(names & RIGHTS) or (of_host and bool(names & OF_HOST))
