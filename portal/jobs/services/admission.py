"""Whether a job may be submitted now: checks the file, the cluster, and what the user and team may use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from django.conf import settings
from django.db.models import F, Max
from django.utils import timezone

from portal.accounts.keys import ssh_keys_of
from portal.accounts.models import User
from portal.hardware.models import Node
from portal.images.selectors import ImagePatterns
from portal.job_file.commands import ends_in_background, has_windows_ends
from portal.job_file.images import image_as_root, image_problems
from portal.job_file.model import JobSpec
from portal.job_file.plugins import PLACE, no_key, ssh_keys
from portal.job_file.problems import Problem, SpecInvalid, path_text, short
from portal.job_file.secrets import (
    MASK,
    registries_open,
    secret_names_missing,
    secret_texts,
    with_logins,
    with_secrets,
)
from portal.job_file.shares import share_hints
from portal.job_file.unused import unused_keys
from portal.job_file.validate import parse
from portal.jobs import wordings
from portal.jobs.container import WORKDIR
from portal.jobs.selectors.code import code_missing
from portal.jobs.selectors.facts import cluster_facts
from portal.jobs.selectors.labels import label_read
from portal.jobs.selectors.storages import storage_names, storages_away
from portal.jobs.selectors.visible import job_restrict
from portal.jobs.services.rights import right_problems
from portal.jobs.services.start import ports_wanted
from portal.secrets.selectors import registry_logins, secret_values
from portal.storages.models import Storage
from portal.teams.models import VirtualCluster

EXTRAS = "extras.berth"


def job_check(
    *,
    user: User,
    text: str | bytes,
    by: User | None = None,
    already_in: VirtualCluster | None = None,
    hidden: Mapping[str, Any] | None = None,
) -> JobSpec:
    """Validates a job file as if submitted now; stores nothing. ``by``: who sets its class, if not the user.
    ``already_in``: the VC the job is in, even if the user has left it. ``hidden``: the secrets of the job whose stored
    file it is. Raises SpecInvalid with every problem."""
    spec = _with_stored(parse(text, cluster_facts(user=user, also=already_in), hidden=hidden), user)
    problems = [
        *_secrets(spec),
        *_ssh_keys(spec),
        *_storages(spec),
        *_images(spec, text),
        *_container(spec),
        *_parking(spec),
        *_times(spec),
        *_nodes(spec),
        *_ports(spec),
        *_after(spec, user),
        *_code(spec, user),
        *right_problems(spec=spec, user=user, by=by or user, now=timezone.now()),
    ]
    if problems:
        raise SpecInvalid(problems)
    return spec


def _with_stored(spec: JobSpec, user: User) -> JobSpec:
    """The spec with stored secrets and logins of the user or the team filled in where the file gives none."""
    missing = {name.partition(".")[0] for name in secret_names_missing(spec)} - spec.secrets.keys()
    spec = with_secrets(spec, secret_values(user=user, vc=spec.vc, names=missing) if missing else {})
    return with_logins(spec, registry_logins(user=user, vc=spec.vc, servers=registries_open(spec)))


def job_hints(*, spec: JobSpec, text: str | bytes, user: User) -> list[str]:
    """Hints for this user about a valid file, as sentences."""
    hints: list[str] = []
    if not Storage.objects.filter(jobs=True).exists():
        hints.append(wordings.NO_JOB_FOLDERS())
    if away := storages_away(spec=spec):
        hints.append(wordings.WAITS_UNTIL(why=away))
    asked = [role.name for role in spec.roles if spec.asks_ssh(role.name)]
    if asked and not all(ssh_keys(spec, name) for name in asked) and not ssh_keys_of(user=user).exists():
        hints.append(wordings.SSH_NOBODY())
    if spec.gpu_count:
        hints += share_hints(spec, cluster_facts(user=user))
    hints += [wordings.WINDOWS_ENDS(role=role.name) for role in spec.roles if has_windows_ends(role.commands)]
    hints += [wordings.BACKGROUND_END(role=role.name) for role in spec.roles if ends_in_background(role.script)]
    if any(one.plugin == "ssh" and not one.asks_ssh and "jobssh" not in one.parameters for one in spec.plugins):
        hints.append(wordings.SSH_NOTHING())
    named = {plugin.plugin for plugin in spec.plugins}
    without = (hint() for name, hint in wordings.WITHOUT_EFFECT.items() if name in named)
    return [*hints, *without, *unused_keys(text)]


def _secrets(spec: JobSpec) -> Iterator[Problem]:
    for name in secret_names_missing(spec):
        message = f"the job refers to <% $secrets.{short(name)} %>; give it under secrets, or store it"
        yield Problem(f"secrets.{name}", message, "missing")


def _ssh_keys(spec: JobSpec) -> Iterator[Problem]:
    """Checks keys that come from stored secrets; the file's own are checked with the file."""
    if any(no_key(ssh_keys(spec, role.name)) is not None for role in spec.roles):
        message = "what a secret brings in is no public SSH key; it is the content of a file that ends with .pub"
        yield Problem(path_text(PLACE), message, "ssh_key")


def _storages(spec: JobSpec) -> Iterator[Problem]:
    wanted = spec.storages or ()
    granted = storage_names(vc=spec.vc) if wanted else frozenset()
    allowed = ", ".join(sorted(granted)) or "none"
    hidden = [text for text in secret_texts(spec.secrets) if text]
    for place, mount in enumerate(wanted):
        if mount.name not in granted:
            name = MASK if any(text in mount.name for text in hidden) else short(mount.name)
            message = f"{spec.vc} has no storage {name}; it has: {allowed}"
            yield Problem(f"extras.storages[{place}].name", message, "unknown")


def _images(spec: JobSpec, text: str | bytes) -> Iterator[Problem]:
    if patterns := ImagePatterns():
        vc = VirtualCluster.objects.get(name=spec.vc)
        yield from image_problems(spec, text, patterns.of(vc.pk))


def _container(spec: JobSpec) -> Iterator[Problem]:
    """What the virtual cluster's rules deny containers."""
    if spec.task_count < 2 and spec.berth.profile != "root":
        return
    vc = VirtualCluster.objects.only("default_profile", "host_network").get(name=spec.vc)
    if spec.berth.profile == "root" and vc.default_profile != "root":
        message = f"containers run as their user in {spec.vc}, never as root; remove it, or ask an administrator"
        yield Problem(f"{EXTRAS}.profile", message, "profile")
    elif spec.berth.profile == "root":
        yield from _root_images(spec, ImagePatterns().of_root(vc.pk))
    if spec.task_count > 1 and not vc.host_network:
        message = (
            f"{spec.task_count} tasks need the host network, which {spec.vc} may not use; "
            "ask an administrator, or put the work into one task"
        )
        yield Problem("taskRoles", message, "host_network")


def _parking(spec: JobSpec) -> Iterator[Problem]:
    """That a job which asks to be parked when idle can be, where it runs."""
    if spec.berth.park != "idle":
        return
    if not VirtualCluster.objects.values_list("parking", flat=True).get(name=spec.vc):
        message = f"{spec.vc} has no jobs parked; remove it, or ask a lead of {spec.vc} to allow it"
        yield Problem(f"{EXTRAS}.park", message, "parking")


def _root_images(spec: JobSpec, patterns: list[str] | None) -> Iterator[Problem]:
    """Images that do not run as root, of a job that asks for root."""
    for uri in sorted({role.image.uri for role in spec.roles if not image_as_root(role.image.uri, patterns)}):
        message = f"{uri} runs as its user in {spec.vc}, never as root; remove it, or ask an administrator"
        yield Problem(f"{EXTRAS}.profile", message, "profile")


def _times(spec: JobSpec) -> Iterator[Problem]:
    limits = [
        ("gracePeriod", spec.berth.grace_period_s, settings.MAX_GRACE_S),
        ("minRunTime", spec.berth.min_run_time_s, settings.MAX_MIN_RUN_S),
    ]
    for key, wanted, most in limits:
        if wanted is not None and wanted > most:
            yield Problem(f"{EXTRAS}.{key}", f"must be at most {most} s here, not {wanted} s", "maximum")


def _nodes(spec: JobSpec) -> Iterator[Problem]:
    named = [("only", spec.berth.nodes_only), ("not", spec.berth.nodes_not)]
    if not any(names for _, names in named):
        return
    known = set(Node.objects.values_list("name", flat=True))
    for key, names in named:
        for place, name in enumerate(names):
            if name not in known:
                yield Problem(f"{EXTRAS}.nodes.{key}[{place}]", f"there is no node {short(name)}", "unknown")


def _ports(spec: JobSpec) -> Iterator[Problem]:
    most = Node.objects.aggregate(most=Max(F("port_last") - F("port_first") + 1))["most"]
    for role in spec.roles if most is not None else ():
        wanted = sum(ports_wanted(spec, role.name, 0).values())
        if wanted > most:
            message = f"asks for {wanted} ports per task, its own among them; no node has more than {max(most, 0)}"
            yield Problem(f"taskRoles.{role.name}.resourcePerInstance.ports", message, "node_too_small")


def _after(spec: JobSpec, user: User) -> Iterator[Problem]:
    for place, text in enumerate(spec.berth.after):
        label = label_read(text, user=user.username)
        jobs = job_restrict(user=user).filter(user__username=label.user, name=label.name)
        if not (jobs if label.run is None else jobs.filter(run=label.run)).exists():
            yield Problem(f"{EXTRAS}.after[{place}]", f"there is no job {short(text)} that you may see", "unknown")


def _code(spec: JobSpec, user: User) -> Iterator[Problem]:
    if spec.berth.code is None:
        return
    if code_missing(user=user, name=spec.berth.code):
        message = (
            f"there is no code {spec.berth.code} that you may use; upload its folder again: "
            "berth submit --code DIR, or POST /api/v1/code"
        )
        yield Problem(f"{EXTRAS}.code", message, "unknown")
    for place, mount in enumerate(spec.storages or ()):
        if PurePosixPath(mount.mount_path) == PurePosixPath(WORKDIR):
            message = f"the job's code is unpacked to {WORKDIR}: mount this storage elsewhere"
            yield Problem(f"extras.storages[{place}].mountPath", message, "taken")
