"""Secrets of a job file: kept out of what is stored and shown."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import yaml

from portal.job_file import raw, scalars
from portal.job_file.loader import checked_text, load
from portal.job_file.model import JobSpec, RegistryAuth, StorageMount
from portal.job_file.problems import SpecInvalid
from portal.job_file.raw import Raw
from portal.job_file.templates import RenderedTooLong, lookup, references, render, value_text

DOCKER_HUB: Final = "docker.io"
MASK: Final = "******"
LONGEST_NAME: Final = 255
"""Maximum characters of a storage's name."""
LITERAL_PASSWORDS: Final = "berth-registry-passwords"
"""Key in `JobSpec.secrets` for registry passwords that the file gives in clear, by image name."""


def mask_secrets(source: str | bytes) -> str:
    """The file as text with its secrets masked, every other byte unchanged.

    Masked are the value of `secrets` with its comments, and registry passwords given in clear. If that cannot be done
    in the text with certainty (anchors and aliases in or to the section), the file is dumped anew. Raises `SpecInvalid`
    on a file that cannot be read.
    """
    text = checked_text(source)
    document = load(text)
    if document.problems:
        raise SpecInvalid(document.problems)
    wanted = _masked_value(document.value)
    if wanted == document.value:
        return text
    finder = _Finder(document.text)
    if not finder.certain:
        return _written(_without(wanted, _leaves(document.value)))
    masked = finder.masked()
    return masked if _reads_as(masked, wanted) else _written(_without(wanted, _leaves(document.value)))


def unmasked(job: Raw, secrets: Mapping[str, Any]) -> Raw:
    """The masked file as stored, with what `JobSpec.secrets` kept put back in place."""
    shown = {**job, "secrets": {**secrets}} if job.get("secrets") == MASK else dict(job)
    if isinstance(job.get("prerequisites"), list):
        passwords = raw.mapping(secrets, LITERAL_PASSWORDS)
        shown["prerequisites"] = [_shown_item(item, passwords) for item in job["prerequisites"]]
    return shown


def _shown_item(item: Any, passwords: Mapping[str, Any]) -> Any:
    name = raw.text(raw.mapping(item).get("name"))
    if name is None or name not in passwords or raw.mapping(item, "auth").get("password") != MASK:
        return item
    return {**item, "auth": {**item["auth"], "password": passwords[name]}}


def secret_names_missing(spec: JobSpec) -> tuple[str, ...]:
    """References to secrets that the file does not give, as `registry.password`, each once, in order."""
    texts = [role.script for role in spec.roles]
    for role in spec.roles:
        if role.image.auth is not None:
            auth = role.image.auth
            texts += [auth.username, auth.password, auth.registry_uri]
    texts += [mount.name for mount in spec.storages or ()]
    texts += [
        str(raw.mapping(one.parameters.get("userssh")).get("value")) for one in spec.plugins if one.plugin == "ssh"
    ]
    found = [steps for text in texts for steps in references(text, "secrets") if steps]
    return tuple(dict.fromkeys(".".join(steps) for steps in found if lookup(spec.secrets, steps) is None))


def secret_texts(secrets: Mapping[str, Any]) -> tuple[str, ...]:
    """Every value of a job's secrets, as in a script."""
    found, waiting = dict[str, None](), [secrets]
    while waiting:
        value: Any = waiting.pop()
        if isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value
        if (text := value_text(value)) is not None:
            found[text] = None
    return tuple(found)


def with_secrets(spec: JobSpec, stored: Mapping[str, Any]) -> JobSpec:
    """The job with these stored secrets added; those of its file take precedence."""
    if not stored:
        return spec
    secrets = {**stored, **spec.secrets}
    return replace(spec, secrets=secrets, storages=storages_named(spec.storages, secrets))


def storages_named(
    mounts: tuple[StorageMount, ...] | None, secrets: Mapping[str, Any]
) -> tuple[StorageMount, ...] | None:
    """Storages with references to these secrets in their names filled in: what is mounted is shown."""
    return mounts and tuple(_named(one, {"secrets": secrets}) for one in mounts)


def _named(mount: StorageMount, context: Mapping[str, Any]) -> StorageMount:
    try:
        name = render(mount.name, context, LONGEST_NAME)
    except RenderedTooLong:
        return mount  # no storage has such a name
    own_place = mount.mount_path != f"/mnt/{mount.name}"
    return StorageMount(name, mount.mount_path if own_place else f"/mnt/{name}")


def registries_open(spec: JobSpec) -> frozenset[str]:
    """Servers of images for which the file gives no login."""
    return frozenset(registry_of(role.image.uri) for role in spec.roles if role.image.auth is None)


def with_logins(spec: JobSpec, logins: Mapping[str, tuple[str, str]]) -> JobSpec:
    """The job with these logins (server -> user name and password) for images without one."""
    passwords, roles = {**raw.mapping(spec.secrets, LITERAL_PASSWORDS)}, []
    for role in spec.roles:
        image = role.image
        server = registry_of(image.uri)
        if image.auth is None and server in logins:
            username, passwords[image.name] = logins[server]
            reference = f"<% $secrets.{LITERAL_PASSWORDS}.{image.name} %>"
            role = replace(role, image=replace(image, auth=RegistryAuth(username, reference, server)))
        roles.append(role)
    if not passwords:
        return spec
    return replace(spec, roles=tuple(roles), secrets={**spec.secrets, LITERAL_PASSWORDS: passwords})


def registry_of(uri: str) -> str:
    """The server of an image, as Docker reads its name: the part before the first slash if it looks like a host, else
    Docker Hub."""
    first, slash, _ = uri.partition("/")
    host = bool(slash) and (first == "localhost" or "." in first or ":" in first)
    return first.lower() if host else DOCKER_HUB


def held_apart(job: Raw) -> tuple[Raw, dict[str, Any]]:
    """The file with registry passwords given in clear replaced by references, and all its secrets."""
    secrets = copy.deepcopy(raw.mapping(job, "secrets"))
    prerequisites = []
    for item in raw.items(job.get("prerequisites")):
        if _clear_password(item) is not None:
            kept = {**raw.mapping(secrets.get(LITERAL_PASSWORDS)), item["name"]: item["auth"]["password"]}
            secrets[LITERAL_PASSWORDS] = kept
            reference = f"<% $secrets.{LITERAL_PASSWORDS}.{item['name']} %>"
            item = {**item, "auth": {**item["auth"], "password": reference}}
        prerequisites.append(item)
    return {**job, "prerequisites": prerequisites}, secrets


def _clear_password(item: Any) -> str | None:
    password = raw.text(raw.mapping(item, "auth").get("password"))
    return None if password is None or any(references(password, "secrets")) else password


def _masked_value(job: Raw) -> Raw:
    masked = dict(job)
    if "secrets" in job:
        masked["secrets"] = MASK
    if isinstance(job.get("prerequisites"), list):
        masked["prerequisites"] = [_masked_item(item) for item in job["prerequisites"]]
    return masked


def _masked_item(item: Any) -> Any:
    if _clear_password(item) is None:
        return item
    return {**item, "auth": {**item["auth"], "password": MASK}}


def _leaves(job: Raw) -> set[str]:
    """Every string that is a secret."""
    found = {password for item in raw.items(job.get("prerequisites")) if (password := _clear_password(item))}
    waiting = [job.get("secrets")]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value
        elif isinstance(value, str) and value:
            found.add(value)
    return found - {MASK}


def _without(value: Any, hidden: set[str]) -> Any:
    """`value` with every secret text masked: an alias may have carried it there."""
    if isinstance(value, dict):
        return {key: _without(item, hidden) for key, item in value.items()}
    if isinstance(value, list):
        return [_without(item, hidden) for item in value]
    return MASK if isinstance(value, str) and value in hidden else value


def _reads_as(text: str, wanted: Raw) -> bool:
    try:
        document = load(text)
    except SpecInvalid:
        return False
    return not document.problems and document.value == wanted


class _Finder:
    """Finds secrets in the text, by libyaml's marks.

    `certain` is False if the text alone cannot tell what is shown elsewhere: a secret contains an anchor or an alias.
    """

    def __init__(self, text: str) -> None:
        self.certain = True
        self._text = text
        self._spans: list[tuple[int, int, str]] = []
        self._events = iter(yaml.parse(text, Loader=yaml.CSafeLoader))
        for event in self._events:
            if isinstance(event, yaml.MappingStartEvent):
                self._file()
                break

    def masked(self) -> str:
        """The text with each secret masked."""
        text = self._text
        for start, end, shown in sorted(self._spans, reverse=True):
            text = text[:start] + shown + text[end:]
        return text

    def _file(self) -> None:
        for key in self._events:
            if isinstance(key, yaml.MappingEndEvent):
                break
            value = next(self._events)
            if _is_key(key, "secrets"):
                self._section(key, value)
            else:
                self._walk(value, ("prerequisites",) if _is_key(key, "prerequisites") else ())

    def _section(self, key: yaml.Event, value: yaml.Event) -> None:
        inside = list(_span_events(value, self._events))
        self._refuse_links(inside)
        start = self._text.find(":", _index(key, end=True)) + 1
        ends = [_index(event, end=True) for event in inside if not _is_block_end(event)]
        end = self._comments_end(_trimmed_end(self._text, max(ends)))
        self._spans.append((start, end, f' "{MASK}"'))

    def _walk(self, value: yaml.Event, path: tuple[str, ...]) -> None:
        """Looks for `prerequisites[].auth.password` below `value`."""
        if isinstance(value, yaml.MappingStartEvent):
            for key in self._events:
                if isinstance(key, yaml.MappingEndEvent):
                    break
                name = key.value if isinstance(key, yaml.ScalarEvent) else ""
                self._walk(next(self._events), (*path, name) if path else ())
        elif isinstance(value, yaml.SequenceStartEvent):
            for item in self._events:
                if isinstance(item, yaml.SequenceEndEvent):
                    break
                self._walk(item, path)
        elif path == ("prerequisites", "auth", "password"):
            self._password(value)
        elif path and isinstance(value, yaml.AliasEvent):
            self.certain = False

    def _password(self, value: yaml.Event) -> None:
        self._refuse_links([value])
        if isinstance(value, yaml.ScalarEvent) and not any(references(value.value, "secrets")):
            self._spans.append((_index(value), _index(value, end=True), f'"{MASK}"'))

    def _refuse_links(self, events: list[yaml.Event]) -> None:
        if any(getattr(event, "anchor", None) for event in events):
            self.certain = False

    def _comments_end(self, end: int) -> int:
        """The section's end, including indented comments after its last value."""
        text = self._text
        while True:
            stop = text.find("\n", end)
            line = text[end : len(text) if stop < 0 else stop]
            if line.strip()[:1] == "#":
                end += len(line.rstrip("\r"))
            following = _next_comment(text, end)
            if following is None:
                return end
            end = following


def _next_comment(text: str, end: int) -> int | None:
    """The start of the next indented comment, if only blank lines come before it."""
    position = text.find("\n", end) + 1
    while position > 0 and not text[end:position].strip():
        stop = text.find("\n", position)
        line = text[position : len(text) if stop < 0 else stop]
        if line.strip():
            return position if line[0] in " \t" and line.lstrip()[0] == "#" else None
        position = stop + 1
    return None


def _span_events(first: yaml.Event, events: Any) -> Any:
    """The events of one value, including `first`."""
    depth = 0
    event = first
    while True:
        yield event
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth == 0:
            return
        event = next(events)


def _is_key(event: yaml.Event, name: str) -> bool:
    return isinstance(event, yaml.ScalarEvent) and event.value == name


def _is_block_end(event: yaml.Event) -> bool:
    """Whether it ends a block collection: such an end has no width, and lies where the next thing begins."""
    return isinstance(event, yaml.CollectionEndEvent) and _index(event) == _index(event, end=True)


def _index(event: yaml.Event, *, end: bool = False) -> int:
    mark = event.end_mark if end else event.start_mark
    return 0 if mark is None else int(mark.index)


def _trimmed_end(text: str, end: int) -> int:
    """`end` before trailing line ends, which a block text includes; they stay."""
    return len(text[:end].rstrip())


class _Dumper(yaml.SafeDumper):
    """Dumps what `load` reads back: long texts as blocks, no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    if style is None and (text != text.strip() or not _plainly_text(text)):
        style = '"'
    return dumper.represent_scalar(scalars.TAG_PREFIX + "str", text, style=style)


def _plainly_text(text: str) -> bool:
    try:
        return isinstance(scalars.plain(text), str)
    except scalars.NotFinite:
        return False


_Dumper.add_representer(str, _write_text)


def _written(value: Raw) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=4_096)
