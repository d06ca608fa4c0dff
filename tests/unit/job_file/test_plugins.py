"""OpenPAI's runtime plug-ins mean what its runtime makes of them."""

from __future__ import annotations

from typing import Any

import pytest

from portal.job_file.model import StorageMount
from portal.job_file.plugins import ssh_keys
from portal.job_file.secrets import secret_names_missing, with_secrets
from portal.job_file.unused import unused_keys
from tests.support.cluster.job_files import Change, job_file, problems, spec

PLUGIN = "com.microsoft.pai.runtimeplugin"
PLUGINS = f"extras/{PLUGIN}"
PLACE = f'extras."{PLUGIN}"[0]'
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
SECOND = {"dockerImage": "image", "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0}, "commands": ["second"]}
CALLBACKS = [
    {"event": "taskStarts", "commands": ["begin"]},
    {"event": "taskSucceeds", "commands": ["finish"]},
]


def of_prerequisite(plugin: str, **keys: Any) -> tuple[Change, Change]:
    item = {"name": "tool", "type": "script", "plugin": f"{PLUGIN}.{plugin}", **keys}
    return ("prerequisites/-", item), ("taskRoles/train/prerequisites", ["tool"])


def ssh(**parameters: Any) -> Change:
    return PLUGINS, [{"plugin": "ssh", "parameters": parameters}]


def test_a_plugin_is_for_the_roles_under_taskroles_and_another_spelling_is_told() -> None:
    cmd = {"plugin": "cmd", "parameters": {"preCommands": ["before"]}, "taskroles": ["second"]}
    job = spec(("taskRoles/second", SECOND), (PLUGINS, [cmd]))
    assert (job.role("train").script, job.role("second").script) == ("true", "before\nsecond")
    told = unused_keys(job_file((PLUGINS, [{"plugin": "cmd", "taskRoles": ["train"]}])))
    assert len(told) == 1
    assert told[0].startswith(f"{PLACE}.taskRoles")
    assert told[0].endswith("did you mean taskroles?")


def test_callbacks_of_cmd_stand_around_the_commands() -> None:
    cmd = {"plugin": "cmd", "parameters": {"callbacks": CALLBACKS}, "failurePolicy": "ignore"}
    text = job_file((PLUGINS, [cmd]))
    assert unused_keys(text) == []
    lines = spec((PLUGINS, [cmd])).role("train").script.splitlines()
    assert lines == ["{", "begin", "} || true", "true", "{", "finish", "} || true"]


def test_what_begins_last_ends_first() -> None:
    around = [{"plugin": "cmd", "parameters": {"preCommands": [f"a{n}"], "postCommands": [f"z{n}"]}} for n in (1, 2)]
    job = spec((PLUGINS, around), *of_prerequisite("cmd", callbacks=CALLBACKS))
    assert job.role("train").script.split() == ["begin", "a1", "a2", "true", "z2", "z1", "finish"]


def test_a_prerequisite_with_a_plugin_is_that_plugin_in_the_roles_that_name_it() -> None:
    clone = of_prerequisite("git", repo_uri="https://git.example.org/a.git", failurePolicy="ignore")
    job = spec(("taskRoles/second", SECOND), *clone)
    assert 'berth_git "$@"\n) || :' in job.role("train").script
    assert job.role("second").script == "second"
    keys = of_prerequisite("ssh", jobssh="true", userssh={"type": "custom", "value": KEY})
    job = spec(("taskRoles/second", SECOND), *keys)
    assert (job.asks_ssh("train"), job.asks_ssh("second")) == (True, False)
    assert (ssh_keys(job, "train"), ssh_keys(job, "second")) == ([KEY], [])
    storages = of_prerequisite("teamwise_storage", storageConfigNames=["nfs"])
    assert spec(*storages).storages == (StorageMount("nfs", "/mnt/nfs"),)
    commands = of_prerequisite("cmd", preCommands=["before"], callbacks=CALLBACKS)
    assert spec(*commands).role("train").script.split() == ["before", "begin", "true", "finish"]
    for changes in (clone, keys, storages, commands):
        assert unused_keys(job_file(*changes)) == []


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        (of_prerequisite("vnc"), "prerequisites[1].plugin", "runtimeplugin.ssh, .cmd, .git"),
        (of_prerequisite("git"), "prerequisites[1].repo_uri", "is required"),
        (of_prerequisite("git", repo_uri="x", options=["'a"]), "prerequisites[1].options[0]", "a quote"),
        (of_prerequisite("cmd", preCommands="x"), "prerequisites[1].preCommands", "must be a list"),
        (of_prerequisite("ssh", jobssh="yes"), "prerequisites[1].jobssh", 'true or false, not the text "yes"'),
        ([(PLUGINS, [{"plugin": "cmd", "taskroles": "train"}])], f"{PLACE}.taskroles", "must be a list"),
        (
            [(PLUGINS, [{"plugin": "cmd", "parameters": {"callbacks": {"event": "taskStarts"}}}])],
            f"{PLACE}.parameters.callbacks",
            "must be a list",
        ),
        (
            [(PLUGINS, [{"plugin": "cmd", "parameters": {"callbacks": [{"event": "ends", "commands": ["x"]}]}}])],
            f"{PLACE}.parameters.callbacks[0].event",
            "must be one of taskStarts, taskSucceeds",
        ),
        ([ssh(sshbarrierTimeout="soon")], f"{PLACE}.parameters.sshbarrierTimeout", "must be a whole number"),
        ([ssh(userssh={"type": "custom", "value": "<% $parameters.key %>"}), ("parameters", {"key": "AAAA"})],
         f"{PLACE}.parameters.userssh.value", "'AAAA' is no public SSH key"),
        ([ssh(userssh={"type": "custom", "value": "<% $secrets.key %>"}), ("secrets", {"key": "hunter2"})],
         f"{PLACE}.parameters.userssh.value", "what a secret brings in is no public SSH key"),
        ([ssh(userssh={"type": "custom", "value": "<% $secrets.key %>"}), ("secrets", {"key": "x" * 100_001})],
         f"{PLACE}.parameters.userssh.value", "longer than 100,000 characters"),
        ([ssh(userssh={"type": "custom", "value": "<% $parameters.a %>" * 4}), ("parameters", {"a": "x" * 300_000})],
         f'extras."{PLUGIN}"', "longer than 1,000,000 characters"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_path(changes: list[Change], path: str, words: str) -> None:
    found = problems(job_file(*changes))
    assert [(one.path, words in one.message) for one in found] == [(path, True)]
    assert "hunter2" not in found[0].message


@pytest.mark.parametrize(
    ("parameters", "asks", "among_tasks"),
    [
        ({}, False, False),
        ({"sshbarrier": True}, False, False),
        ({"jobssh": False, "userssh": {}}, False, False),
        ({"jobssh": False, "userssh": {"type": "none", "value": ""}}, False, False),
        ({"userssh": {"type": "custom", "value": ""}}, True, False),
        ({"jobssh": "True", "userssh": {}}, True, True),
    ],
)
def test_ssh_is_asked_for_as_openpai_s_pages_write_it(
    parameters: dict[str, Any], asks: bool, among_tasks: bool
) -> None:
    job = spec(ssh(**parameters))
    assert (job.asks_ssh("train"), job.job_ssh("train") is not None) == (asks, among_tasks)


def test_a_parameter_of_ssh_that_another_plugin_has_is_nothing_to_it() -> None:
    job = spec((PLUGINS, [{"plugin": "cmd", "parameters": {"preCommands": ["before"], "userssh": "x"}}]))
    assert not job.asks_ssh("train")


def test_a_key_that_a_plugin_does_not_read_is_told() -> None:
    (told,) = unused_keys(job_file(*of_prerequisite("git", repo_uri="x", clone_dirs="y")))
    assert told.startswith("prerequisites[1].clone_dirs")
    (told,) = unused_keys(job_file(*of_prerequisite("ssh", callbacks=CALLBACKS)))
    assert told.startswith("prerequisites[1].callbacks")


def test_parameters_and_secrets_are_filled_in_once_in_every_parameter() -> None:
    keys = {"type": "custom", "value": "<% $parameters.key %>\n<% $secrets.keys.desk %>"}
    names = ["<% $parameters.team %>-data", "<% $secrets.store %>", "<% $secrets.later %>"]
    plugins = [
        {"plugin": "ssh", "parameters": {"jobssh": "<% $parameters.on %>", "sshbarrier": "TRUE",
                                         "sshbarrierTimeout": "<% $parameters.minutes %>", "userssh": keys}},
        {"plugin": "teamwise_storage", "parameters": {"storageConfigNames": names}},
        {"plugin": "cmd", "parameters": {"preCommands": ["echo <% $parameters.once %>"]}},
    ]  # fmt: skip
    job = spec(
        (PLUGINS, plugins),
        ("parameters", {"key": KEY, "team": "vision", "on": True, "minutes": 3, "once": "<% $parameters.team %>"}),
        ("secrets", {"keys": {"desk": f"{KEY} desk"}, "store": "nfs"}),
    )
    assert ssh_keys(job, "train") == [KEY, f"{KEY} desk"]
    assert (job.plugins[0].asks_ssh, job.plugins[0].barrier_s) == (True, 180)
    assert [mount.name for mount in job.storages or ()] == ["vision-data", "nfs", "<% $secrets.later %>"]
    assert job.role("train").script == "echo <% $parameters.team %>\ntrue"
    assert KEY + " desk" not in str(job.to_json())
    assert secret_names_missing(job) == ("later",)
    stored = with_secrets(job, {"later": "home"})
    assert (stored.storages or ())[2] == StorageMount("home", "/mnt/home")
