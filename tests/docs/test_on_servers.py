"""What the pages type on servers, in blocks and within sentences, names services, profiles, units, commands and flags
that there are. Blocks are run as well, by `make compose-test` and others; these looks take a moment."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import Any

import pytest
import yaml
from django.core.management import get_commands, load_command_class
from typer.main import get_command

from berth.cli.app import app
from nodes.__main__ import BY_HAND
from nodes.agent.config.policy import Policy
from tests.docs.test_register import flags_of, flags_within, options
from tests.support.people.documents import ROOT, blocks, pages, spans, split

SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
PROFILES = {profile for service in SERVICES.values() for profile in service.get("profiles", [])}
VERBS = {"build", "cp", "down", "exec", "logs", "ps", "restart", "run", "stop", "up"}
TAKES_A_VALUE = {"--entrypoint", "--profile", "--scale", "--tail"}
UNITS = {"containerd", "docker", *(path.stem for path in (ROOT / "nodes").glob("*.service"))}
PYTHON = re.compile(r"python3?")


@dataclass
class Compose:
    """A command of `docker compose`, taken apart. ``inside``: what it runs in a container."""

    verb: str = ""
    profiles: list[str] = field(default_factory=list)
    services: list[str] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)


def compose(words: list[str]) -> Compose:
    """What stands behind `docker compose`."""
    made, rest = Compose(), list(words)
    while rest:
        word = rest.pop(0)
        if word in TAKES_A_VALUE:
            value = rest.pop(0)
            made.profiles += [value] if word == "--profile" else []
            made.services += [value.partition("=")[0]] if word == "--scale" else []
        elif word.startswith("-"):
            continue
        elif not made.verb:
            made.verb = word
        elif made.verb == "cp":
            made.services += [word.partition(":")[0]] if ":" in word else []
        else:
            made.services.append(word)
            if made.verb in {"exec", "run"}:
                made.inside, rest = rest, []
    return made


def typed() -> Iterator[tuple[str, list[str]]]:
    """Page and words of each command."""
    yield from spans()
    for page in pages():
        for block in blocks(page):
            if block.language == "sh":
                for command in split(block.text):
                    for part in parts(command):
                        yield page, part


def parts(command: str) -> Iterator[list[str]]:
    """The words of each program of a command, up to what stands between two."""
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    part: list[str] = []
    for word in words:
        if set(word) <= set("();<>|&"):
            if part:
                yield part
            part = []
        else:
            part.append(word)
    if part:
        yield part


def whole() -> Iterator[tuple[str, list[str]]]:
    """The same, each program by its name alone; beside a command of compose what it runs."""
    for page, words in typed():
        words = words[1:] if words[0] == "sudo" else words
        words = [words[0].rpartition("/")[2] or words[0], *words[1:]]
        yield page, words
        if words[:2] == ["docker", "compose"] and (made := compose(words[2:])).inside:
            agent = made.services[-1:] == ["berth-node"]  # whose image begins with the agent
            yield page, ["berth-node", *made.inside] if agent else made.inside


def of_compose() -> list[tuple[str, list[str]]]:
    return [(page, words[2:]) for page, words in whole() if words[:2] == ["docker", "compose"]]


def modules() -> Iterator[tuple[str, str, list[str]]]:
    """Page, module and words of each `python -m`."""
    for page, words in whole():
        if PYTHON.fullmatch(words[0]) and words[1:2] == ["-m"] and len(words) > 2:
            yield page, words[2], words[3:]


@cache
def flags_of_agent(command: str) -> set[str]:
    """All that the agent, or one of its commands, says that it takes; `key` and `check` take the agent's own."""
    told = set()
    for words in [[command], []] if command in {"check", "key", ""} else [[command]]:
        if words != ["key"]:
            asked = [sys.executable, "-m", "nodes", *filter(None, words), "--help"]
            told |= set(re.findall(r"--[a-z][a-z0-9-]+", subprocess.check_output(asked, cwd=ROOT, text=True)))
    return told


def test_commands_of_compose_name_services_and_profiles_that_there_are() -> None:
    wrong = [
        f"{page}: docker compose {shlex.join(words)}"
        for page, words in of_compose()
        if words and (
            (made := compose(words)).verb not in VERBS
            or not {*made.services} <= SERVICES.keys()
            or not {*made.profiles} <= PROFILES
        )
    ]  # fmt: skip
    assert wrong == []
    assert len(of_compose()) > 50


def test_what_sentences_call_a_profile_is_one_of_the_stack_or_of_containers() -> None:
    named = {
        (page, name) for page in pages() for name in re.findall(r"[Pp]rofiles? `(\w+)`", (ROOT / page).read_text())
    }
    assert [(page, name) for page, name in sorted(named) if name not in {*PROFILES, *Policy().profiles}] == []
    assert len(named) > 2


def test_commands_of_the_agent_are_those_that_there_are_with_their_flags() -> None:
    asked = [(page, words[1:]) for page, words in whole() if words[0] == "berth-node"]
    asked += [(page, words) for page, module, words in modules() if module == "nodes"]
    wrong = []
    for page, words in asked:
        command = words[0] if words and not words[0].startswith("-") else ""
        if (command and command not in BY_HAND) or options(words) - flags_of_agent(command):
            wrong.append(f"{page}: berth-node {shlex.join(words)}")
    assert wrong == []
    assert len(asked) > 15


def flags_below(command: Any) -> set[str]:
    """The options of a command of `berth`, and of all below it."""
    deeper = getattr(command, "commands", {}).values()
    return flags_of(command, []).union(*(flags_below(one) for one in deeper))


def test_a_flag_that_stands_by_itself_is_one_of_some_command() -> None:
    known = flags_below(get_command(app)).union(*(flags_of_agent(one) for one in ("", *BY_HAND)))
    for name, place in get_commands().items():
        if str(place).startswith("portal."):
            known |= flags_within(load_command_class(place, name).create_parser("manage.py", name))
    alone = {
        (page, flag)
        for page in pages()
        for flag in re.findall(r"`(--[a-z][a-z0-9-]+)[^`]*`", (ROOT / page).read_text())
    }
    assert [(page, flag) for page, flag in sorted(alone) if flag not in known] == []
    assert len(alone) > 30


def test_modules_and_units_are_those_that_there_are() -> None:
    missing = {(page, module) for page, module, _ in modules() if find_spec(module) is None}
    assert missing == set()
    units = {
        (page, word.removesuffix(".service"))
        for page, words in whole()
        if words[0] in {"systemctl", "journalctl"}
        for word in words[2:]
        if not word.startswith("-")
    }
    assert {unit for _, unit in units} == UNITS


@pytest.mark.parametrize(
    ("command", "made"),
    [
        ("up -d --wait agnet", Compose("up", [], ["agnet"])),
        ("--profile nodes logs --tail 5 web", Compose("logs", ["nodes"], ["web"])),
        ("up --scale webs=2", Compose("up", [], ["webs"])),
        ("exec -T web rm -r /x", Compose("exec", [], ["web"], ["rm", "-r", "/x"])),
        ("cp web:/a b", Compose("cp", [], ["web"])),
    ],
)
def test_a_name_is_found_wherever_it_stands(command: str, made: Compose) -> None:
    assert compose(command.split()) == made
