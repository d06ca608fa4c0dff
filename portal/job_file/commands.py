"""Command lines that a task runs, in order, and their script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nodes.protocol.names import OWN_COMMANDS
from portal.job_file import git_clone, raw
from portal.job_file.plugins import Entry, entries_of
from portal.job_file.raw import Raw
from portal.job_file.templates import render


def deployed_lines(job: Raw, role_name: str) -> list[str]:
    """The role's own commands between those of the chosen deployment, each trimmed, also of the byte order mark that
    Windows editors put first: a shell takes it for part of the first word."""
    deployments = raw.named(job.get("deployments"))
    chosen = raw.mapping(job, "defaults").get("deployment")
    around = raw.mapping(deployments.get(str(chosen)), "taskRoles", role_name)
    own = raw.mapping(job, "taskRoles", role_name)
    lines = [around.get("preCommands"), own.get("commands"), around.get("postCommands")]
    return [line.lstrip("\ufeff").strip() for part in lines for line in raw.texts(part)]


def task_lines(job: Raw, role_name: str) -> list[str]:
    """All lines of a task: those of prerequisites and the plug-ins `git` and `cmd` nest around `deployed_lines`, the
    last to begin ending first. `OWN_COMMANDS` follows the clones."""
    found = list(entries_of(job, role_name))
    clones = [one for one in found if one.plugin == "git"]
    first: list[str] = []
    for one in found:
        first += [git_clone.CLONE] if clones and one is clones[0] else []
        first += git_clone.clone_lines(one) if one.plugin == "git" else _cmd_lines(one, "preCommands", "taskStarts")
        first += [git_clone.FORGET, OWN_COMMANDS.strip()] if clones and one is clones[-1] else []
    last = [line for one in reversed(found) for line in _cmd_lines(one, "postCommands", "taskSucceeds")]
    return [*first, *deployed_lines(job, role_name), *last]


def script(job: Raw, role_name: str, lines: list[str]) -> str:
    """`lines` as one script with all but the secrets filled in, and with Unix line ends: a shell takes others for part
    of each line's last word. Raises `RenderedTooLong`."""
    return render("\n".join(lines), context(job, role_name)).replace("\r\n", "\n").strip()


def has_windows_ends(lines: Iterable[str]) -> bool:
    """Whether any of these commands has Windows line ends."""
    return any("\r\n" in line for line in lines)


def ends_in_background(text: str) -> bool:
    """Whether the last command of this script runs in the background."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    last = lines[-1].partition(" #")[0].rstrip() if lines else ""
    return last.endswith("&") and last[:-1].rstrip()[-1:] not in "&|;>\\"


def context(job: Raw, role_name: str) -> Mapping[str, Any]:
    """What references in a role's commands can name: the parameters and its own prerequisites."""
    role = raw.mapping(job, "taskRoles", role_name)
    found: dict[str, Any] = {"parameters": raw.mapping(job, "parameters")}
    for kind in ("data", "script", "output"):
        found[kind] = raw.prerequisites(job, kind).get(str(role.get(kind)), {})
    return found


def _cmd_lines(entry: Entry, key: str, event: str) -> list[str]:
    """Lines that an entry of `cmd` runs at this event, harmless to the script if its failure is to be ignored."""
    if entry.plugin != "cmd":
        return []
    called = [raw.mapping(one) for one in raw.items(entry.parameters.get("callbacks"))]
    given = [entry.parameters.get(key), *(one.get("commands") for one in called if one.get("event") == event)]
    lines = [line.strip() for commands in given for line in raw.texts(commands)]
    return ["{", *lines, "} || true"] if lines and entry.failure_policy == "ignore" else lines
