"""Setting the code of a job file without touching anything else of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from berth import Misused
from berth.job_file import with_code

CODE = f"sha256:{'ab' * 32}"
PLAIN = "# mine\nname: train   # why\ntaskRoles:\n    worker: {instances: 1}\n"
KEPT = [
    PLAIN,
    PLAIN + "extras:\n",
    PLAIN + "extras: {}\n",
    PLAIN + "extras: ~\nmore: 1\n",
    PLAIN + "extras:\n  berth:\n  tags: [a]\n",
    PLAIN + "extras:\n    tags: [a]  # kept\n    berth:\n        timeLimit: 2h  # long\n",
    PLAIN + "extras: {tags: [a], berth: {timeLimit: 2h}}\n",
    PLAIN + "extras: {berth: {}}\n",
    PLAIN + f"extras:\n  berth:\n    code: sha256:{'0' * 64}  # old\n    borrow: auto\n",
    PLAIN + "extras: {berth: {code: }}\n",
    "---\n" + PLAIN,
    '{"name": "train", "extras": {"berth": {"borrow": "auto"}}}',
    '{"name": "train"}',
    "{}",
    PLAIN.replace("\n", "\r\n"),
    PLAIN.replace("name: ", "name:\t") + "extras:\n  tags:\t[a]\n",
    '{\n\t"name": "train",\n\t"extras": {\n\t\t"tags": ["a"]\n\t}\n}\n',
    r'{"name": "train", "description": "\ud83d\ude80"}',
]


def read(document: str) -> dict[str, Any]:
    """As the server does, and as JSON where libyaml cannot."""
    found: dict[str, Any] = json.loads(document) if "ud83d" in document else yaml.load(document, yaml.CSafeLoader)
    return found


@pytest.mark.parametrize("document", KEPT)
def test_the_code_is_set_and_all_else_stays(document: str) -> None:
    changed = with_code(document.encode(), CODE)
    before, after = read(document), read(changed)
    assert after["extras"]["berth"].pop("code") == CODE
    for key in ("tags",):
        assert after["extras"].get(key) == (before.get("extras") or {}).get(key)
    assert {key: after[key] for key in before if key != "extras"} == {
        key: value for key, value in before.items() if key != "extras"
    }
    for comment in ("# mine", "# why", "# kept", "# long", "# old"):
        assert (comment in document) == (comment in changed)
    if document.startswith("{"):
        assert json.loads(changed)["extras"]["berth"]["code"] == CODE


def test_setting_it_again_replaces_it() -> None:
    other = CODE.replace("ab", "cd")
    assert with_code(with_code(PLAIN, CODE), other) == with_code(PLAIN, other)


@pytest.mark.parametrize("document", ["- a\n- b\n", "", "name: [", "a: 1\n---\nb: 2\n", b"\xff\xfe", "extras: text\n"])
def test_what_is_no_job_file_is_refused_before_anything_is_sent(document: str | bytes) -> None:
    with pytest.raises(Misused):
        with_code(document, CODE)
