"""The plug-in `git` in a job file: which lines it makes, and what of it is refused."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.job_file.git_clone import option_words
from portal.job_file.secrets import secret_names_missing
from tests.support.cluster.job_files import Change, job_file, problems, spec

PLUGINS = "extras/com.microsoft.pai.runtimeplugin"
PLACE = 'extras."com.microsoft.pai.runtimeplugin"[0].parameters'
BEGIN = {"event": "taskStarts", "commands": ["install git"]}


def git(**parameters: Any) -> dict[str, Any]:
    return {"plugin": "git", "parameters": {"repo_uri": "https://git.example.org/a.git", **parameters}}


def script(*plugins: dict[str, Any], role: str = "train", changes: tuple[Change, ...] = ()) -> str:
    return spec((PLUGINS, list(plugins)), *changes).role(role).script


def test_a_clone_comes_after_prerequisites_and_before_the_commands_of_cmd() -> None:
    cmd = {"plugin": "cmd", "parameters": {"preCommands": ["before"]}}
    tools: Change = ("prerequisites/-", {"name": "tools", "type": "script", "callbacks": [BEGIN]})
    text = script(cmd, git(), changes=(tools, ("taskRoles/train/prerequisites", ["tools"])))
    lines = text.splitlines()
    wanted = ["install git", "berth_git() {", 'berth_git "$@"', "unset -f berth_git", "before", "true"]
    assert [line for line in lines if line in wanted] == wanted


def test_it_is_for_the_roles_that_it_names_and_each_entry_clones_for_itself() -> None:
    both, other = [git(clone_dir="a"), git(clone_dir="b")], {**git(), "taskroles": []}
    assert script(*both).count('berth_git "$@"') == 2
    assert script(*both).count("berth_git() {") == 1
    assert script(other) == "true"


@pytest.mark.parametrize(
    ("parameters", "path", "message"),
    [
        ({"options": []}, "repo_uri", "is required"),
        ({"repo_uri": ""}, "repo_uri", "must not be empty"),
        ({"repo_uri": "x", "options": "--depth 1"}, "options", 'must be a list, not the text "--depth 1"'),
        ({"repo_uri": "x", "options": [1]}, "options[0]", "must be a text, not 1"),
        ({"repo_uri": "x", "options": ["a", "b\\"]}, "options[1]", "has a quote that is not closed"),
        ({"repo_uri": "x", "clone_dir": ["a"]}, "clone_dir", "must be a text, not a list"),
    ],
)
def test_what_is_wrong_of_it_is_told_with_its_field(parameters: dict[str, Any], path: str, message: str) -> None:
    (found,) = problems(job_file((PLUGINS, [{"plugin": "git", "parameters": parameters}])))
    assert (found.path, message in found.message) == (f"{PLACE}.{path}", True)


def test_without_parameters_it_is_refused() -> None:
    (found,) = problems(job_file((PLUGINS, [{"plugin": "git"}])))
    assert (found.path, found.message) == (PLACE, "is required")


def test_parameters_are_filled_in_and_secrets_are_not() -> None:
    job = spec(
        (PLUGINS, [git(repo_uri="https://<% $secrets.git.token %>@x/<% $parameters.repo %>")]),
        ("parameters", {"repo": "r"}),
        ("secrets", {"other": "hunter2"}),
    )
    assert "=<% $secrets.git.token %>\n" in job.role("train").script
    assert "https://x/r" in job.role("train").script
    assert secret_names_missing(job) == ("git.token",)


@given(option=st.text(alphabet="ab '\"\\\n\t;$<%>-\u00e9", max_size=12))
def test_options_are_taken_apart_as_a_shell_does(option: str) -> None:
    try:
        wanted = shlex.split(option)
    except ValueError:
        wanted = None
    if "<%" not in option:
        assert option_words(option) == wanted


def test_a_reference_is_a_part_of_its_word() -> None:
    assert option_words("-b v<% $parameters.a %> '<% $parameters.b %>'") == [
        "-b",
        "v<% $parameters.a %>",
        "<% $parameters.b %>",
    ]
