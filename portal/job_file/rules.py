"""Job file rules beyond the schema: names that must exist, numbers that must agree.

Each rule is a generator over the file as read and copes with any shape; `RULES` is their order.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from nodes.protocol.steps import PatternInvalid, steps_pattern
from portal.job_file import commands, durations, git_clone, image_names, plugins, raw
from portal.job_file.problems import Path, short
from portal.job_file.raw import Raw
from portal.job_file.secrets import MASK
from portal.job_file.templates import MAX_RENDERED, RenderedTooLong
from portal.job_file.unused import rights_asked

MAX_TASKS = 10_000
MAX_SCRIPTS = 2_000_000
"""Characters of all roles' scripts together, references filled in."""

_LINK_KINDS = {"dockerImage": "dockerimage", "data": "data", "script": "script", "output": "output"}
_HIVED: Path = ("extras", "hivedScheduler", "taskRoles")
_BERTH: Path = ("extras", "berth")
_RESERVED_MOUNTS = ("/", "/berth", "/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr")
_RESERVED_BELOW = ("/berth/", "/proc/", "/run/berth", "/sys/", "/dev/")


class Finding(NamedTuple):
    """A problem whose path is not text yet."""

    path: Path
    message: str
    code: str


Rule = Callable[[Raw], Iterator[Finding]]


def findings(job: Raw) -> Iterator[Finding]:
    """All rules' findings on the file."""
    for rule in RULES:
        yield from rule(job)


def prerequisites_unique(job: Raw) -> Iterator[Finding]:
    """Each pair of type and name is unique."""
    seen: set[tuple[str, str]] = set()
    for index, item in enumerate(raw.items(job.get("prerequisites"))):
        kind, name = raw.text(raw.mapping(item).get("type")), raw.text(raw.mapping(item).get("name"))
        if kind is None or name is None:
            continue
        if (kind, name) in seen:
            message = f"a second {short(kind)} prerequisite is named {short(name)}; give it another name"
            yield Finding(("prerequisites", index, "name"), message, "duplicate_name")
        seen.add((kind, name))


def passwords_given(job: Raw) -> Iterator[Finding]:
    """Registry passwords are not masked, as in a file copied from a page."""
    for index, item in enumerate(raw.items(job.get("prerequisites"))):
        if raw.mapping(item, "auth").get("password") == MASK:
            message = "is masked; give the password again, or name one of your stored secrets"
            yield Finding(("prerequisites", index, "auth", "password"), message, "masked")


def images_named(job: Raw) -> Iterator[Finding]:
    """Each image has a name that Docker can pull; a value that is no text without blanks is left to the schema."""
    for index, item in enumerate(raw.items(job.get("prerequisites"))):
        uri = raw.text(raw.mapping(item).get("uri"))
        if raw.mapping(item).get("type") != "dockerimage" or uri is None or len(uri.split()) != 1 or len(uri) > 1024:
            continue
        if (fault := image_names.fault(uri)) is not None:
            yield Finding(("prerequisites", index, "uri"), fault, "image_name")


def prerequisites_exist(job: Raw) -> Iterator[Finding]:
    """Prerequisites that a role or another one names exist, with the right type."""
    by_kind = {kind: raw.prerequisites(job, kind) for kind in _LINK_KINDS.values()}
    known = raw.named(job.get("prerequisites"))
    for name, role in raw.roles(job):
        for key, kind in _LINK_KINDS.items():
            wanted = raw.text(role.get(key))
            if wanted is not None and wanted not in by_kind[kind]:
                path = ("taskRoles", name, key)
                yield _missing(path, f"{kind} prerequisite", wanted, by_kind[kind])
        yield from _all_known(("taskRoles", name, "prerequisites"), role.get("prerequisites"), known)
    for index, item in enumerate(raw.items(job.get("prerequisites"))):
        yield from _all_known(("prerequisites", index, "require"), raw.mapping(item).get("require"), known)


def deployments_match(job: Raw) -> Iterator[Finding]:
    """Deployments have unique names and refer to existing roles; the chosen one exists."""
    roles = raw.mapping(job, "taskRoles")
    seen: set[str] = set()
    for index, item in enumerate(raw.items(job.get("deployments"))):
        name = raw.text(raw.mapping(item).get("name"))
        if name in seen:
            message = f"a second deployment is named {short(name or '')}; give it another name"
            yield Finding(("deployments", index, "name"), message, "duplicate_name")
        seen |= {name} if name else set()
        for role in raw.mapping(item, "taskRoles"):
            if role not in roles:
                yield _missing(("deployments", index, "taskRoles", role), "task role", role, roles)
    chosen = raw.text(raw.mapping(job, "defaults").get("deployment"))
    if chosen is not None and chosen not in seen:
        yield _missing(("defaults", "deployment"), "deployment", chosen, seen)


def hived_roles_match(job: Raw) -> Iterator[Finding]:
    """Each entry names an existing role and one place only; an affinity group asks for one kind of cell."""
    roles = raw.mapping(job, "taskRoles")
    groups: dict[str, tuple[str, object, object]] = {}
    for name, item in raw.mapping(job, *map(str, _HIVED)).items():
        if name not in roles:
            yield _missing((*_HIVED, name), "task role", name, roles)
        entry = raw.mapping(item)
        sku, cell = raw.text(entry.get("skuType")), raw.text(entry.get("pinnedCellId"))
        if sku and cell:
            message = f"skuType {short(sku)} and pinnedCellId {short(cell)} exclude each other; remove one of them"
            yield Finding((*_HIVED, name, "pinnedCellId"), message, "exclusive")
        group = raw.text(entry.get("affinityGroupName"))
        if group is not None:
            first, *asked = groups.setdefault(group, (name, sku, cell))
            if asked != [sku, cell]:
                message = (
                    f"affinity group {short(group)} asks for another SKU or other reserved servers than in role "
                    f"{short(first)}"
                )
                yield Finding((*_HIVED, name, "affinityGroupName"), message, "affinity_group")


def roles_complete(job: Raw) -> Iterator[Finding]:
    """Each role has something to run."""
    for name, role in raw.roles(job):
        lines = raw.texts(role.get("commands"))
        if lines and not any(line.strip() for line in lines):
            message = "every command is blank; give at least one to run"
            yield Finding(("taskRoles", name, "commands"), message, "blank")


def pai_role(role: str) -> str:
    """The role's name in OpenPAI's runtime variables and host names; variables made from the file alone keep the
    original."""
    return role.lower().replace("_", "")


def roles_distinct(job: Raw) -> Iterator[Finding]:
    """No two roles share the variables that name their tasks."""
    seen: dict[str, str] = {}
    for name, _ in raw.roles(job):
        other = seen.setdefault(pai_role(name), name)
        if other != name:
            message = (
                f"{short(other)} and {short(name)} are the same role in OpenPAI's variables (PAI_HOST_IP_"
                f"{short(pai_role(name))}_0), which name roles in lower case without underscores; rename one"
            )
            yield Finding(("taskRoles", name), message, "duplicate_name")


def tasks_bounded(job: Raw) -> Iterator[Finding]:
    """The job has at most `MAX_TASKS` tasks."""
    total = sum(raw.task_range(job, name, role)[1] for name, role in raw.roles(job))
    if total > MAX_TASKS:
        message = f"the roles have {total:,} tasks together; at most {MAX_TASKS:,} are accepted"
        yield Finding(("taskRoles",), message, "maximum")


def scripts_bounded(job: Raw) -> Iterator[Finding]:
    """Scripts stay bounded when parameters are filled in."""
    total = 0
    for name, _ in raw.roles(job):
        try:
            total += len(commands.script(job, name, commands.task_lines(job, name)))
        except RenderedTooLong:
            message = f"are longer than {MAX_RENDERED:,} characters with their parameters filled in"
            yield Finding(("taskRoles", name, "commands"), message, "too_large")
            return
        if total > MAX_SCRIPTS:
            message = f"the commands of all roles are longer than {MAX_SCRIPTS:,} characters together"
            yield Finding(("taskRoles",), message, "too_large")
            return


def storages_mountable(job: Raw) -> Iterator[Finding]:
    """Each storage is mounted once, at its own path that the container allows."""
    names: set[str] = set()
    places: set[str] = set()
    for index, item in enumerate(raw.items(raw.mapping(job, "extras").get("storages"))):
        path: Path = ("extras", "storages", index)
        name, place = raw.text(raw.mapping(item).get("name")), mount_path(raw.mapping(item))
        if name in names:
            yield Finding(
                (*path, "name"), f"storage {short(name or '')} is mounted twice; once is enough", "duplicate_name"
            )
        if place in places:
            message = f"{short(place)} is already the place of another storage"
            yield Finding((*path, "mountPath"), message, "duplicate_name")
        if place in _RESERVED_MOUNTS or place.startswith(_RESERVED_BELOW) or ".." in place:
            message = f"{short(place)} cannot be a mount point; choose one such as /mnt/{short(name or 'data')}"
            yield Finding((*path, "mountPath"), message, "mount_path")
        names |= {name} if name else set()
        places.add(place)


def plugins_match(job: Raw) -> Iterator[Finding]:
    """Runtime plug-ins refer to existing roles."""
    roles = raw.mapping(job, "taskRoles")
    for index, item in enumerate(raw.items(raw.mapping(job, "extras").get(plugins.KEY))):
        for position, name in enumerate(raw.items(raw.mapping(item).get("taskroles"))):
            if isinstance(name, str) and name not in roles:
                yield _missing((*plugins.PLACE, index, "taskroles", position), "task role", name, roles)


def git_options_are_words(job: Raw) -> Iterator[Finding]:
    """Options of the plug-in `git` can be split into words."""
    for path, entry in plugins.entries(job):
        for place, option in enumerate(raw.items(entry.parameters.get("options")) if entry.plugin == "git" else ()):
            if isinstance(option, str) and git_clone.option_words(option) is None:
                message = "has a quote that is not closed, or ends with a backslash"
                yield Finding((*path, "options", place), message, "quote")


def ssh_keys_are_keys(job: Raw) -> Iterator[Finding]:
    """The plug-in `ssh` is given public keys without options. The value of a secret is not shown."""
    for path, entry in plugins.entries(job):
        value: Path = (*path, "userssh", "value")
        try:
            typed = plugins.key_lines(entry.parameters, {}) if entry.plugin == "ssh" else []
            wrong = plugins.no_key(plugins.key_lines(entry.parameters, raw.mapping(job, "secrets")) if typed else ())
        except RenderedTooLong:
            message = f"are longer than {plugins.MOST_KEYS:,} characters with their parameters filled in"
            yield Finding(value, message, "too_large")
            continue
        if wrong is not None:
            shown = repr(wrong[:40]) if wrong in typed else "what a secret brings in"
            message = f"{shown} is no public SSH key; it is the content of a file that ends with .pub"
            yield Finding(value, message, "ssh_key")


def berth_durations_agree(job: Raw) -> Iterator[Finding]:
    """Durations are in bounds, and none exceeds the time limit."""
    berth = raw.mapping(job, *map(str, _BERTH))
    limit = durations.seconds(berth.get("timeLimit"))
    for key in ("timeLimit", "gracePeriod", "minRunTime"):
        value = durations.seconds(berth.get(key))
        if value is None:
            continue
        if isinstance(berth[key], str) and value > durations.LONGEST_SECONDS:
            message = f"must be at most {durations.LONGEST_SECONDS:,} seconds (10 years), not {value:,}"
            yield Finding((*_BERTH, key), message, "maximum")
        elif limit is not None and value > limit:
            message = f"must be at most the timeLimit, {limit:,} s, not {value:,} s"
            yield Finding((*_BERTH, key), message, "maximum")


def berth_wishes_agree(job: Raw) -> Iterator[Finding]:
    """Mutually exclusive options are not combined."""
    berth = raw.mapping(job, *map(str, _BERTH))
    if berth.get("preemptible") is False:
        if berth.get("borrow") == "auto":
            message = "preemptible: false holds inside the quota only; remove it, or borrow: auto"
            yield Finding((*_BERTH, "preemptible"), message, "exclusive")
        if raw.priority_class(job) == "oppo":
            message = "an opportunistic job (oppo) can always be preempted; remove it, or take another class"
            yield Finding((*_BERTH, "preemptible"), message, "exclusive")
    only = raw.texts(raw.mapping(berth, "nodes").get("only"))
    refused = set(raw.texts(raw.mapping(berth, "nodes").get("not")))
    if only and set(only) <= refused:
        yield Finding((*_BERTH, "nodes", "only"), "every node here stands under `not` as well", "exclusive")
    yield from _checkpoint_findable(job, raw.text(berth.get("checkpointFile")) or "")


def _checkpoint_findable(job: Raw, file: str) -> Iterator[Finding]:
    path: Path = (*_BERTH, "checkpointFile")
    if ".." in file.split("/"):
        yield Finding(path, "must stay inside its folder (no `..`)", "path")
        return
    storages = raw.items(raw.mapping(job, "extras").get("storages"))
    places = [mount_path(raw.mapping(item)) for item in storages]
    if file.startswith("/") and not any(file.startswith(f"{place}/") for place in places):
        message = "must be a path relative to $BERTH_JOB_DIR, or one below the mountPath of a storage of this job"
        yield Finding(path, message, "path")


def parked_jobs_have_one_gpu(job: Raw) -> Iterator[Finding]:
    """A job that asks to be parked when idle is one that can be."""
    if raw.mapping(job, *map(str, _BERTH)).get("park") != "idle":
        return
    asked = [
        (raw.task_range(job, name, role)[1], raw.whole(raw.mapping(role, "resourcePerInstance").get("gpu")))
        for name, role in raw.roles(job)
    ]
    if asked != [(1, 1)]:
        yield Finding((*_BERTH, "park"), "only a job of one task with one GPU can be parked", "exclusive")


def elastic_roles_can_grow(job: Raw) -> Iterator[Finding]:
    """Elastic roles exist, have GPUs, and `instances` lies between their `min` and `max`; the job is a preemptible
    gang."""
    berth, roles = raw.mapping(job, *map(str, _BERTH)), dict(raw.roles(job))
    given = raw.mapping(berth, "elastic")
    if given and not raw.gang(job):
        message = "needs a job whose tasks start together; remove gangAllocation: false, or elastic"
        yield Finding((*_BERTH, "elastic"), message, "exclusive")
    if given and berth.get("preemptible") is False:
        message = "preemptible: false does not go with elastic, whose extra tasks can always be preempted; remove one"
        yield Finding((*_BERTH, "preemptible"), message, "exclusive")
    for name in given:
        path: Path = (*_BERTH, "elastic", name)
        if name not in roles:
            yield _missing(path, "task role", name, roles)
        else:
            yield from _range_findings(job, name, roles[name], path)


def _range_findings(job: Raw, name: str, role: Raw, path: Path) -> Iterator[Finding]:
    least, most = raw.task_range(job, name, role)
    instances = raw.whole(role.get("instances"), 1)
    if not raw.whole(raw.mapping(role, "resourcePerInstance").get("gpu")):
        yield Finding(path, "its tasks have no GPUs, so that it cannot grow into idle ones", "exclusive")
    if least > instances:
        yield Finding((*path, "min"), f"must be at most instances, {instances:,}, not {least:,}", "maximum")
    elif most < instances:
        yield Finding((*path, "max"), f"must be at least instances, {instances:,}, not {most:,}", "minimum")
    elif least == most:
        yield Finding((*path, "max"), f"must be more than min, {least:,}, not {most:,}", "minimum")


def steps_are_found(job: Raw) -> Iterator[Finding]:
    """`extras.berth.steps` is a pattern with a group, and takes linear time."""
    pattern = raw.text(raw.mapping(job, *map(str, _BERTH)).get("steps"))
    if pattern is not None:
        try:
            steps_pattern(pattern)
        except PatternInvalid as invalid:
            yield Finding((*_BERTH, "steps"), f"must be {invalid}", "pattern")


def no_rights_asked(job: Raw) -> Iterator[Finding]:
    """No unread key asks for rights that no job has."""
    for path in rights_asked(job):
        message = "asks for rights that jobs do not have here; remove it"
        yield Finding(path, message, "right")


def mount_path(storage: Raw) -> str:
    """The storage's mount path, normalised; OpenPAI's default is /mnt/ and its name."""
    given = raw.text(storage.get("mountPath")) or f"/mnt/{storage.get('name')}"
    if "/.." in given:
        return given
    return "/" + posixpath.normpath(given).lstrip("/")


def _all_known(path: Path, wanted: object, known: Iterable[str]) -> Iterator[Finding]:
    for index, name in enumerate(raw.items(wanted)):
        if isinstance(name, str) and name not in known:
            yield _missing((*path, index), "prerequisite", name, known)


def _missing(path: Path, what: str, name: str, known: Iterable[str]) -> Finding:
    names = sorted(known)
    some = ", ".join(map(short, names[:10]))
    there = f"there {'is' if len(names) == 1 else 'are'}: {some}" if names else "there is none"
    return Finding(path, f"no {what} is named {short(name)}; {there}", "unknown_name")


RULES: tuple[Rule, ...] = (
    prerequisites_unique,
    passwords_given,
    images_named,
    prerequisites_exist,
    deployments_match,
    hived_roles_match,
    roles_complete,
    roles_distinct,
    tasks_bounded,
    scripts_bounded,
    storages_mountable,
    plugins_match,
    git_options_are_words,
    ssh_keys_are_keys,
    berth_durations_agree,
    berth_wishes_agree,
    parked_jobs_have_one_gpu,
    elastic_roles_can_grow,
    steps_are_found,
    no_rights_asked,
)
