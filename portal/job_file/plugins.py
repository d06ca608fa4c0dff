"""OpenPAI's runtime plug-ins of a job file in one form: entries of `extras`, and prerequisites that name one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from portal.common.public_keys import NoPublicKey, public_key_parse
from portal.job_file import raw
from portal.job_file.model import JobSpec
from portal.job_file.problems import Path
from portal.job_file.raw import Raw
from portal.job_file.templates import MAX_RENDERED, RenderedTooLong, render

KEY: Final = "com.microsoft.pai.runtimeplugin"
PLACE: Final[Path] = ("extras", KEY)
_IN_SCRIPT = ("cmd", "git")
"""Plug-ins that become lines of a script, whose references are filled in as a whole."""
_FLAGS = ("jobssh", "sshbarrier")
_NUMBERS = ("sshbarrierTimeout", "port")
MOST_KEYS: Final = 100_000
"""Maximum characters of one `userssh`."""
_WHOLE = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One plug-in; `roles` None means every role."""

    plugin: str
    parameters: Raw
    failure_policy: Any = None
    roles: list[str] | None = None


def entries(job: Raw) -> Iterator[tuple[Path, Entry]]:
    """Every plug-in of a file of any shape, with the path of its parameters: prerequisites first."""
    needed = {name: {item.get("name") for item in needed_prerequisites(job, name)} for name, _ in raw.roles(job)}
    for at, item in enumerate(raw.items(job.get("prerequisites"))):
        prerequisite = raw.mapping(item)
        roles = [role for role, names in needed.items() if raw.text(prerequisite.get("name")) in names]
        if (entry := _of_prerequisite(prerequisite, roles)) is not None:
            yield ("prerequisites", at), entry
    for at, item in enumerate(raw.items(raw.mapping(job, "extras").get(KEY))):
        yield (*PLACE, at, "parameters"), _of_extras(raw.mapping(item))


def entries_of(job: Raw, role_name: str) -> Iterator[Entry]:
    """The plug-ins of a role in running order: prerequisites', clones, all others."""
    for item in needed_prerequisites(job, role_name):
        if (entry := _of_prerequisite(item, [role_name])) is not None:
            yield entry
    others = [_of_extras(raw.mapping(item)) for item in raw.items(raw.mapping(job, "extras").get(KEY))]
    for entry in sorted(others, key=lambda one: one.plugin != "git"):
        if entry.roles is None or role_name in entry.roles:
            yield entry


def needed_prerequisites(job: Raw, role_name: str) -> Iterator[Raw]:
    """The prerequisites that the role lists, in order, each after those it requires, each once."""
    known = raw.named(job.get("prerequisites"))
    waiting = raw.texts(raw.mapping(job, "taskRoles", role_name).get("prerequisites"))[::-1]
    opened: set[str] = set()
    done: set[str] = set()
    while waiting:
        name = waiting.pop()
        item = known.get(name, {})
        if name in opened and name not in done:
            done.add(name)
            yield item
        elif name not in opened:
            opened.add(name)
            waiting += [name, *raw.texts(item.get("require"))[::-1]]


def filled(job: Raw) -> Raw:
    """The file with `$parameters` filled in in plug-ins outside of scripts, and their values converted to the expected
    types: OpenPAI reads `jobssh: "true"` as `jobssh: true`. Raises `RenderedTooLong`."""
    filling = _Filling(raw.mapping(job, "parameters"))
    changed = dict(job)
    if isinstance(job.get("prerequisites"), list):
        changed["prerequisites"] = [filling.prerequisite(item) for item in job["prerequisites"]]
    extras = job.get("extras")
    if isinstance(extras, dict) and isinstance(extras.get(KEY), list):
        changed["extras"] = {**extras, KEY: [filling.entry(item) for item in extras[KEY]]}
    return changed


def ssh_keys(spec: JobSpec, role: str) -> list[str]:
    """Lines that the file gives as public keys for this role, with the known ones of the job's secrets filled in."""
    given = [plugin.parameters for plugin in spec.plugins if plugin.plugin == "ssh" and plugin.is_of(role)]
    try:
        return [line for parameters in given for line in key_lines(parameters, spec.secrets)]
    except RenderedTooLong:
        return []


def key_lines(parameters: Mapping[str, Any], secrets: Mapping[str, Any]) -> list[str]:
    """The lines of `userssh` that are not comments, with these secrets filled in; raises `RenderedTooLong`."""
    given = raw.mapping(parameters.get("userssh"))
    if given.get("type") != "custom":
        return []
    lines = map(str.strip, render(str(given.get("value") or ""), {"secrets": secrets}, MOST_KEYS).splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def no_key(lines: Iterable[str]) -> str | None:
    """The first line that is not a public key, ignoring those with references to unknown secrets."""
    for line in lines:
        try:
            public_key_parse(line)
        except NoPublicKey:
            if "<%" not in line:
                return line
    return None


def _of_prerequisite(item: Raw, roles: list[str]) -> Entry | None:
    """Its plug-in entry; without a plug-in its callbacks are `cmd`'s, and None if it is not ours."""
    named = raw.text(item.get("plugin"))
    plugin = "cmd" if named is None and "callbacks" in item else (named or "").removeprefix(f"{KEY}.")
    if not plugin or plugin == named:
        return None
    return Entry(plugin, item, item.get("failurePolicy"), roles)


def _of_extras(item: Raw) -> Entry:
    roles = None if item.get("taskroles") is None else raw.texts(item["taskroles"])
    return Entry(raw.text(item.get("plugin")) or "", raw.mapping(item, "parameters"), item.get("failurePolicy"), roles)


class _Filling:
    """Fills in parameters, with the limit of one text for all texts together."""

    def __init__(self, parameters: Raw) -> None:
        self._context = {"parameters": parameters}
        self._left = MAX_RENDERED

    def prerequisite(self, item: Any) -> Any:
        entry = _of_prerequisite(raw.mapping(item), [])
        if entry is None or entry.plugin in _IN_SCRIPT:
            return item
        kept = {key: item[key] for key in ("name", "type", "plugin", "require") if key in item}
        return {**self._parameters(item), **kept}

    def entry(self, item: Any) -> Any:
        parameters = raw.mapping(item, "parameters")
        if not parameters or item.get("plugin") in _IN_SCRIPT:
            return item
        return {**item, "parameters": self._parameters(parameters)}

    def _parameters(self, parameters: Raw) -> Raw:
        return {key: _typed(key, self._value(value)) for key, value in parameters.items()}

    def _value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if not isinstance(value, str) or "<%" not in value:
            return value
        text = render(value, self._context)
        self._left -= len(text)
        if self._left < 0:
            raise RenderedTooLong
        return text


def _typed(key: str, value: Any) -> Any:
    """Converts a flag or number that was written as text."""
    if isinstance(value, str) and key in _FLAGS and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return int(value) if isinstance(value, str) and key in _NUMBERS and _WHOLE.fullmatch(value) else value
