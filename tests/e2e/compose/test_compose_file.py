"""The compose file and the images' recipes as they are written; `make compose-test` runs them."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest
import yaml

from portal.embedded.processes import commands

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docker-compose.yml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]
ONCE = {"setup", "migrate"}
COMMANDS = {"berth-node"}
RECIPES = ["portal/Dockerfile", "nodes/Dockerfile"]


def test_every_variable_of_the_stack_is_documented() -> None:
    used = set(re.findall(r"(?<!\$)\$\{(\w+)", TEXT))
    pages = [ROOT / "docs/admin" / name for name in ("processes.md", "settings.md")]
    documented = {name for page in pages for name in re.findall(r"`(BERTH_\w+)`", page.read_text())}
    assert used - documented == set()
    assert len(used) > 15


@pytest.mark.parametrize("name", sorted(SERVICES.keys() - ONCE - COMMANDS))
def test_what_stays_up_has_a_health_check_and_starts_again(name: str) -> None:
    service = SERVICES[name]
    assert service["restart"] == "unless-stopped"
    in_recipe = name == "agent" and "HEALTHCHECK" in (ROOT / "nodes/Dockerfile").read_text()
    assert in_recipe or service["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_nobody_but_the_agent_is_root_or_has_rights_to_spare(name: str) -> None:
    service = SERVICES[name]
    assert "no-new-privileges:true" in service["security_opt"]
    assert "privileged" not in service
    if name in {"agent", "berth-node"}:
        assert (service["user"], service["pid"], service["cgroup"], service["network_mode"]) == (
            "0:0", "host", "host", "host",
        )  # fmt: skip
        return
    assert service["user"].partition(":")[0] not in {"", "0", "root"}
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"]
    assert not any("docker.sock" in volume for volume in service["volumes"])


def test_the_agent_sees_each_folder_at_the_path_that_it_has_outside() -> None:
    folders = [re.fullmatch(r"(.+?):\1(:rslave)?", volume) for volume in SERVICES["agent"]["volumes"][1:]]
    assert len(folders) == 2
    assert all(folders)


def test_the_agent_sees_its_servers_policy_where_the_page_says_that_it_lies() -> None:
    """Below its state folder, which no job mounts: the folder of storages is the jobs' own."""
    found = re.findall(r"BERTH_NODE_POLICY_FILE=(/[\w./-]+)", (ROOT / "docs/admin/servers.md").read_text())
    state, storages = (re.findall(r":-([^}]+)}", volume)[-1] for volume in SERVICES["agent"]["volumes"][1:])
    assert found
    assert all(Path(path).is_relative_to(state) for path in found)
    assert not Path(state).is_relative_to(storages)


def test_the_commands_of_the_agent_have_all_that_it_has_but_gpus() -> None:
    agent, commands_of = dict(SERVICES["agent"]), SERVICES["berth-node"]
    assert agent.pop("deploy")["resources"]["reservations"]["devices"]
    own = {"profiles", "restart", "healthcheck"}
    assert {name: one for name, one in commands_of.items() if name not in own} == {
        name: one for name, one in agent.items() if name not in own
    }


def test_who_reads_what_the_first_step_writes_is_started_again_with_it() -> None:
    """Redis and Caddy have it from files, at their start alone; nothing of their own changes with it."""
    readers = {
        name
        for name, service in SERVICES.items()
        if any(file in " ".join(map(str, service.get("command", ()))) for file in ("Caddyfile", "redis.conf"))
    }
    assert readers == {"proxy", "redis"}
    for name in readers:
        assert SERVICES[name]["depends_on"]["setup"] == {
            "condition": "service_completed_successfully", "restart": True,
        }  # fmt: skip


def test_there_is_room_for_many_web_processes_beside_the_proxy() -> None:
    def default(name: str) -> str:
        found = re.search(rf"{name}:-([^}}]+)}}", TEXT)
        assert found
        return found[1]

    network, given = IPv4Network(default("BERTH_EDGE_SUBNET")), IPv4Network(default("BERTH_EDGE_RANGE"))
    assert given.num_addresses > 100
    assert given.subnet_of(network)
    proxy = IPv4Address(default("BERTH_PROXY_ADDRESS"))
    assert proxy in network
    assert proxy not in given


def test_only_the_proxy_and_redis_are_reached_from_outside() -> None:
    assert {name for name, service in SERVICES.items() if "ports" in service} == {"proxy", "redis", "prometheus"}
    assert SERVICES["prometheus"]["ports"] == ["127.0.0.1:${BERTH_PROMETHEUS_PORT:-9090}:9090"]
    assert SERVICES["redis"]["ports"] == ["${BERTH_REDIS_PORT:-6380}:6379"]
    assert SERVICES["proxy"]["networks"].keys() == {"edge"}
    assert {name for name, service in SERVICES.items() if "edge" in service.get("networks", [])} == {"proxy", "web"}


def test_the_containers_run_what_the_embedded_stack_runs() -> None:
    wanted = commands(bind="0.0.0.0", port=8000)
    for name in ("web", "scheduler", "reports", "control"):
        theirs = [word for word in wanted[name] if not word.endswith("python") and word != "-m"]
        ours = [str(word) for word in SERVICES[name]["command"]]
        assert [word for word in theirs if word not in ours] == [], name


def test_tables_are_made_once_before_whoever_uses_them() -> None:
    assert SERVICES["migrate"]["command"][-2:] == ["migrate", "--no-input"]
    for name in ("web", "scheduler", "reports", "control"):
        assert SERVICES[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"


@pytest.mark.parametrize("recipe", RECIPES)
def test_an_image_is_made_of_the_locked_libraries_on_a_base_that_may_be_another(recipe: str) -> None:
    text = (ROOT / recipe).read_text()
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE).count("${BASE}") >= 2
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) <= {"${BASE}", "libraries"}
    installs = re.findall(r"pip.* install (?:.*\\\n)*.*", text)
    assert installs
    assert all("--require-hashes" in install for install in installs)
    lock = "nodes/requirements.txt" if recipe.startswith("nodes") else "requirements.txt"
    assert f"COPY {lock} " in text
    assert "org.opencontainers.image.revision" in text
    assert re.search(r"^USER (\d+):\d+$", text, re.MULTILINE)


@pytest.mark.parametrize("recipe", RECIPES)
def test_what_a_recipe_copies_is_let_through_and_nothing_private_is(recipe: str) -> None:
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    through = {rule[1:] for rule in rules if rule.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / recipe).read_text(), re.MULTILINE)
    names = {name.rstrip("/") for line in copied for name in line.split() if name != "."}
    assert all(any(name == one or name.startswith(f"{one}/") for one in through) for name in names)
    assert rules[1] == "*", "what is not named stays out"
    assert through.isdisjoint({".env", "data", ".git", "tests"})
