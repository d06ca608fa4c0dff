"""The lines a task runs, in order, and the script they make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from portal.jobs.spec import git_clone, raw
from portal.jobs.spec.raw import Raw
from portal.jobs.spec.templates import render

PLUGINS_KEY = "com.microsoft.pai.runtimeplugin"


def deployed_lines(job: Raw, role_name: str) -> list[str]:
    """The role's own commands between those of the chosen deployment, each trimmed."""
    deployments = raw.named(job.get("deployments"))
    chosen = raw.mapping(job, "defaults").get("deployment")
    around = raw.mapping(deployments.get(str(chosen)), "taskRoles", role_name)
    own = raw.mapping(job, "taskRoles", role_name)
    lines = [around.get("preCommands"), own.get("commands"), around.get("postCommands")]
    return [line.strip() for part in lines for line in raw.texts(part)]


def task_lines(job: Raw, role_name: str) -> list[str]:
    """All lines of a task: those that prerequisites and the plug-ins `git` and `cmd` bring stand around
    `deployed_lines`, the last to begin being the first to end."""
    first = [
        *_callbacks(job, role_name, "taskStarts"),
        *_clones(job, role_name),
        *_cmd_lines(job, role_name, "preCommands"),
    ]
    last = [*_cmd_lines(job, role_name, "postCommands"), *_callbacks(job, role_name, "taskSucceeds")]
    return [*first, *deployed_lines(job, role_name), *last]


def script(job: Raw, role_name: str, lines: list[str]) -> str:
    """`lines` as one script with everything but the secrets filled in; raises `RenderedTooLong`."""
    return render("\n".join(lines), context(job, role_name)).strip()


def context(job: Raw, role_name: str) -> Mapping[str, Any]:
    """What the references of a role's commands can name: the parameters and its own prerequisites."""
    role = raw.mapping(job, "taskRoles", role_name)
    found: dict[str, Any] = {"parameters": raw.mapping(job, "parameters")}
    for kind in ("data", "script", "output"):
        found[kind] = raw.prerequisites(job, kind).get(str(role.get(kind)), {})
    return found


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


def _callbacks(job: Raw, role_name: str, event: str) -> list[str]:
    lines = []
    for item in needed_prerequisites(job, role_name):
        for callback in raw.items(item.get("callbacks")):
            if raw.mapping(callback).get("event") == event:
                lines += _guarded(callback.get("commands"), item.get("failurePolicy"))
    return lines


def _clones(job: Raw, role_name: str) -> list[str]:
    lines = [line for plugin in _plugins(job, role_name, "git") for line in git_clone.clone_lines(plugin)]
    return [git_clone.CLONE, *lines, git_clone.FORGET] if lines else []


def _cmd_lines(job: Raw, role_name: str, key: str) -> list[str]:
    lines = []
    for plugin in _plugins(job, role_name, "cmd"):
        lines += _guarded(raw.mapping(plugin, "parameters").get(key), plugin.get("failurePolicy"))
    return lines


def _plugins(job: Raw, role_name: str, name: str) -> Iterator[Raw]:
    """The entries of this plug-in for the role, in their order."""
    for item in raw.items(raw.mapping(job, "extras").get(PLUGINS_KEY)):
        plugin = raw.mapping(item)
        roles = plugin.get("taskRoles")
        if plugin.get("plugin") == name and (roles is None or role_name in raw.items(roles)):
            yield plugin


def _guarded(commands: Any, policy: Any) -> list[str]:
    """The commands, made harmless to the script when their failure is to be ignored."""
    lines = [line.strip() for line in raw.texts(commands)]
    return ["{", *lines, "} || true"] if lines and policy == "ignore" else lines
