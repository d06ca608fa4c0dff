"""References are filled in as OpenPAI filled them in."""

from __future__ import annotations

from typing import Any

import pytest

from nodes.protocol.names import OWN_COMMANDS
from portal.job_file.model import RegistryAuth
from portal.job_file.templates import RenderedTooLong, number_text, render, render_auth, render_script
from tests.support.cluster.job_files import spec

CONTEXT: dict[str, Any] = {
    "parameters": {"n": 3, "lr": 1e-05, "on": True, "none": None, "list": ["a", ["b"]], "a-b": "dash", "t": "<% $x %>"},
    "data": {"uri": ["first", "second"]},
}


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("plain", "plain"),
        ("<% $parameters.n %>", "3"),
        ("<%$parameters.n%><%   $parameters.n   %>", "33"),
        ("<% $parameters.lr %>", "0.00001"),
        ("<% $parameters.on %>", "true"),
        ("<% $parameters.a-b %>", "dash"),
        ("<% $data.uri[1] %>", "second"),
        ("<% $data.uri.0 %>", "first"),
        ("<% $parameters.list[1][0] %>", "b"),
        ("<% $parameters.t %>", "<% $x %>"),
        ("<% $parameters.none %>", "<% $parameters.none %>"),
        ("<% $parameters.list %>", "a,b"),
        ("<% $parameters.unheard %>", "<% $parameters.unheard %>"),
        ("<% $data.uri[2] %>", "<% $data.uri[2] %>"),
        ("<% $secrets.x %>", "<% $secrets.x %>"),
        ("<% parameters.n %>", "<% parameters.n %>"),
        ("<% $parameters.n", "<% $parameters.n"),
    ],
)
def test_a_known_reference_is_filled_in_and_anything_else_stays(text: str, rendered: str) -> None:
    assert render(text, CONTEXT) == rendered


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (0.01, "0.01"),
        (0.0, "0"),
        (-0.0, "0"),
        (-2.50, "-2.5"),
        (100.0, "100"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.5e300, "1.5e+300"),
        (1e-06, "0.000001"),
        (1e-07, "1e-7"),
        (2.5e-10, "2.5e-10"),
    ],
)
def test_a_number_is_written_as_javascript_writes_it(value: float, text: str) -> None:
    assert number_text(value) == text


def test_a_text_that_grows_without_bound_is_refused() -> None:
    context = {"parameters": {"p": "x" * 1_000}}
    assert len(render("<% $parameters.p %>" * 1_000, context)) == 1_000_000
    with pytest.raises(RenderedTooLong):
        render("<% $parameters.p %>" * 1_000 + "y", context)


def test_secrets_wait_for_the_container_while_parameters_do_not() -> None:
    job = spec(
        ("parameters", {"user": "ann"}),
        ("secrets", {"git": {"token": "hunter2"}}),
        ("taskRoles/train/commands", ["pull <% $parameters.user %>:<% $secrets.git.token %>"]),
    )
    role = job.role("train")
    assert role.script == "pull ann:<% $secrets.git.token %>"
    assert render_script(role, job.secrets) == "pull ann:hunter2"


def test_a_registry_log_in_is_filled_in_where_it_is_used() -> None:
    auth = RegistryAuth("<% $secrets.user %>", "<% $secrets.word %>", "docker.io")
    assert render_auth(auth, {"user": "ann", "word": "hunter2"}) == RegistryAuth("ann", "hunter2", "docker.io")


def test_the_mark_that_editors_of_windows_put_before_a_text_is_no_part_of_a_command() -> None:
    job = spec(("taskRoles/train/commands", ["\ufeffecho a", "\ufeff echo '\ufeffb'"]))
    assert job.role("train").script == "echo a\necho '\ufeffb'"


def test_line_ends_of_windows_are_those_of_unix_in_what_a_shell_reads() -> None:
    role = spec(
        ("parameters", {"more": "b\r\nc"}),
        ("taskRoles/train/commands", ["echo a\r\ntrue\r\n", "<% $parameters.more %>"]),
    ).role("train")
    assert role.script == "echo a\ntrue\nb\nc"


def test_the_lines_of_a_job_are_counted_behind_what_a_plug_in_brings() -> None:
    plugin = {"plugin": "git", "parameters": {"repo_uri": "https://git.lab/x.git"}}
    role = spec(
        ("taskRoles/train/commands", ["first", "second"]), ("extras/com.microsoft.pai.runtimeplugin", [plugin])
    ).role("train")
    before, mark, own = role.script.partition(OWN_COMMANDS)
    assert (mark, own) == (OWN_COMMANDS, "first\nsecond")
    assert "git.lab" in before
