"""Secrets are neither shown nor stored with the job."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.job_file.loader import load
from portal.job_file.problems import SpecInvalid
from portal.job_file.secrets import MASK, mask_secrets, secret_names_missing, secret_texts
from portal.job_file.templates import render_auth
from tests.support.cluster.job_files import spec

HIDDEN = ["hunter2", "hunter3"]

IN_THE_TEXT = {
    "block style": ("a: 1\nsecrets:\n  x: hunter2\nb: 2\n", 'a: 1\nsecrets: "******"\nb: 2\n'),
    "flow style": ("secrets: {x: hunter2, y: [hunter3]} # keep\nb: 2\n", 'secrets: "******"\nb: 2\n'),
    "flow style over lines": ("secrets: {\n  x: hunter2\n  }\nb: 2\n", 'secrets: "******"\nb: 2\n'),
    "a quoted key": ('"secrets": {"x": "hunter2"}\n', '"secrets": "******"\n'),
    "json": ('{"secrets": {"x": "hunter2"}, "b": 2}', '{"secrets": "******", "b": 2}'),
    "the last section without a line end": ("a: 1\nsecrets:\n  x: hunter2", 'a: 1\nsecrets: "******"'),
    "a comment before and behind": (
        "# above\nsecrets: # hunter3\n  # hunter3\n  x: hunter2 # hunter3\n\n  # hunter3\n\n# below\nb: 2\n",
        '# above\nsecrets: "******"\n\n# below\nb: 2\n',
    ),
    "a block text": ("secrets:\n  x: |\n    hunter2\n    hunter3\n\nb: 2\n", 'secrets: "******"\n\nb: 2\n'),
    "windows line ends": ("secrets:\r\n  x: hunter2\r\nb: 2\r\n", 'secrets: "******"\r\nb: 2\r\n'),
    "letters beyond ascii": (
        "d: \u4f60\u597d \N{ROCKET}\nsecrets:\n  x: hunter2\nb: \u00e9\n",
        'd: \u4f60\u597d \N{ROCKET}\nsecrets: "******"\nb: \u00e9\n',
    ),
    "a list at the left edge": ("secrets:\n- hunter2\n- hunter3\nb: 2\n", 'secrets: "******"\nb: 2\n'),
    "a section of the same name inside": (
        "parameters:\n  secrets: shown\nsecrets: {x: hunter2}\n",
        'parameters:\n  secrets: shown\nsecrets: "******"\n',
    ),
    "no secrets at all": ("a:   1 # kept\n", "a:   1 # kept\n"),
    "a registry password in clear": (
        "prerequisites:\n- name: i\n  auth: {username: ann, password: hunter2}\n  uri: x\n",
        'prerequisites:\n- name: i\n  auth: {username: ann, password: "******"}\n  uri: x\n',
    ),
    "a registry password by reference": (
        "prerequisites:\n- auth:\n    password: <% $secrets.x %>\nsecrets: {x: hunter2}\n",
        'prerequisites:\n- auth:\n    password: <% $secrets.x %>\nsecrets: "******"\n',
    ),
}


@pytest.mark.parametrize(("text", "masked"), IN_THE_TEXT.values(), ids=IN_THE_TEXT)
def test_only_the_secrets_change_in_the_text(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked


ANEW = {
    "an anchor in the section": "secrets: {x: &p hunter2}\nparameters: {y: *p}\n",
    "an anchor on the section": "secrets: &all {x: hunter2}\nparameters: *all\n",
    "an alias in the section": "parameters: {y: &p hunter2}\nsecrets: {x: *p}\n",
    "the section by a merge key": "base: &b {secrets: {x: hunter2}}\n<<: *b\n",
    "an explicit key": "? secrets # what: hunter3\n: {x: hunter2}\nb: 2\n",
    "an alias for a password": "b: &p hunter2\nprerequisites: [{auth: {password: *p}}]\n",
    "an alias for a log-in": "b: &a {password: hunter2}\nprerequisites: [{auth: *a}]\n",
    "an alias for the whole list": "b: &l [{auth: {password: hunter2}}]\nprerequisites: *l\n",
    "a password as a block text": "prerequisites:\n- auth:\n    password: |\n      hunter2\n  uri: x\n",
}


@pytest.mark.parametrize("text", ANEW.values(), ids=ANEW)
def test_where_the_text_is_not_certain_nothing_leaks_all_the_same(text: str) -> None:
    masked = mask_secrets(text)
    assert MASK in masked
    assert not any(word in masked for word in HIDDEN)
    value = load(masked).value
    assert value.get("secrets", MASK) == MASK
    assert value.get("b") in (load(text).value.get("b"), MASK, [{"auth": {"password": MASK}}], {"password": MASK})


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Cn"]), max_size=30)
WORDS = st.sampled_from(
    ["yes", "1e3", "0o17", "1_0", "~", "", " a ", "a\nb", "a\n\n b\n", "#", "- a", "2021-01-01", ".inf"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(-1e30, 1e30) | TEXTS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | WORDS, inner, max_size=3),
    max_leaves=8,
)


@given(rest=st.dictionaries(TEXTS.filter(lambda key: key not in ("secrets", "prerequisites")), VALUES, max_size=3))
def test_a_file_written_anew_says_the_same_as_before(rest: dict[str, object]) -> None:
    rest.pop("", None)
    text = '{"secrets": {"x": &p "hunter2"}, "y": *p, "rest": ' + json.dumps(rest) + "}"
    assert load(mask_secrets(text)).value == {"secrets": MASK, "y": MASK, "rest": rest}


@pytest.mark.parametrize("text", ["a: [", "secrets: {x: 1}\nsecrets: {y: 2}\n", "a: !x 1\n"])
def test_a_file_that_cannot_be_read_is_not_shown(text: str) -> None:
    with pytest.raises(SpecInvalid):
        mask_secrets(text)


def test_a_registry_password_in_clear_becomes_a_secret() -> None:
    auth = {"username": "ann", "password": "hunter2", "registryuri": "docker.io"}
    job = spec(("prerequisites/0/auth", auth))
    assert "hunter2" not in json.dumps(job.to_json()) + repr(job)
    login = job.role("train").image.auth
    assert login is not None
    assert render_auth(login, job.secrets).password == "hunter2"
    assert secret_names_missing(job) == ()


def test_references_that_the_file_does_not_give_are_named_once_in_order() -> None:
    job = spec(
        ("secrets", {"given": "x", "empty": {}}),
        ("parameters", {"p": "<% $secrets.inside %>"}),
        ("prerequisites/0/auth", {"username": "u", "password": "<% $secrets.registry.word %>"}),
        ("taskRoles/train/commands", ["<% $secrets.given %> <% $secrets.b %> <% $secrets.b %> <% $secrets.empty.a %>"]),
        ("taskRoles/train/prerequisites", []),
    )
    assert secret_names_missing(job) == ("b", "empty.a", "registry.word")


def test_a_reference_that_a_parameter_brings_in_counts() -> None:
    job = spec(("parameters", {"p": "<% $secrets.x %>"}), ("taskRoles/train/commands", ["<% $parameters.p %>"]))
    assert secret_names_missing(job) == ("x",)


def test_every_value_is_known_as_a_script_has_it() -> None:
    job = spec(
        ("secrets", {"word": "hunter2", "pin": 12345678, "half": 0.5, "more": {"list": ["hunter3", "hunter2"]}}),
        ("prerequisites/0/auth", {"username": "ann", "password": "in-clear", "registryuri": "docker.io"}),
    )
    known = {"hunter2", "12345678", "0.5", "hunter3", "hunter3,hunter2", "in-clear"}
    assert set(secret_texts(job.secrets)) == known
