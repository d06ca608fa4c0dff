"""What is wrong with a job file is told in the reader's language: on pages, and to programs that ask for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils.translation import override

from portal.job_file.schema import schema_job
from portal.job_file.validate import parse
from portal.jobs.problem_words import problem_words
from tests.support.cluster.job_files import job_file, problems
from tests.support.cluster.world import World
from tests.support.cluster.world import job_file as world_file
from tests.support.people.cast import Api
from tests.support.people.pages import Browser
from tests.support.run.spoken import problems_written
from tests.unit.job_file.test_problems import WRONG

PUT_TOGETHER = {"fit.py", "images.py", "rules.py", "schema.py"}
CHINESE = re.compile("[\u4e00-\u9fff]")


def test_everything_that_can_be_wrong_with_a_file_is_told_in_chinese() -> None:
    told = {one.message for change, _, _ in WRONG for one in problems(job_file(change))}
    with override("zh-hans"):
        assert {one for one in told if not CHINESE.search(problem_words(one))} == set()
        assert problem_words("must be a text or a number, not true") == "必须是文本或数字，而不是 true"
        assert problem_words("no task role is named x%s; there are: a, b") == "没有名为 x%s 的任务角色；现有：a, b"
        assert problem_words("something else") == "something else"
    assert all(problem_words(one) == one for one in told)
    assert parse(job_file()).name


def test_every_sentence_of_what_is_wrong_with_a_file_has_a_form_that_is_known() -> None:
    """What is put together of parts is not looked at here: the tests above and below go through that."""
    written = [text for path, text in problems_written() if Path(path).name not in PUT_TOGETHER]
    assert len(written) > 20
    with override("zh-hans"):
        assert [one for one in written if problem_words(one) == one] == []


def test_what_a_schema_says_itself_is_known_word_for_word() -> None:
    said = {f'{one}, not the text "x"' for one in says(schema_job())}
    assert len(said) > 8
    with override("zh-hans"):
        left = {one for one in said if "must" in problem_words(one) or "not the text" in problem_words(one)}
    assert left == set()


def says(part: Any) -> Iterator[str]:
    """Every ``x-says`` in a schema."""
    if isinstance(part, dict):
        yield from [part["x-says"]] if isinstance(part.get("x-says"), str) else []
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from says(inner)


@pytest.mark.django_db
def test_a_page_and_a_program_that_asks_read_it_in_chinese_others_in_english(world: World) -> None:
    text, api = world_file(instances=0), Api(world.user)
    told = [
        json.loads(api.call("POST", "validate", text, kind="application/yaml", **headers).content)["problems"][0]
        for headers in ({}, {"Accept_Language": "zh-CN,zh;q=0.9"}, {"Accept_Language": "fr"})
    ]
    english = "must be at least 1, not 0"
    assert [one["message"] for one in told] == [english, "至少为 1，而不是 0", english]
    browser = Browser(world.user)
    sent = browser.client.post  # the page itself, as somebody with a Chinese browser gets it
    page = browser.get("/submit")
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.html)
    assert token
    answer = sent("/submit", {"config": text, "csrfmiddlewaretoken": token[1]}, headers={"Accept-Language": "zh-CN"})
    assert "至少为 1，而不是 0" in answer.content.decode()


@pytest.mark.django_db
def test_a_name_that_looks_like_the_sentence_around_it_is_cut_before_it_is_looked_through(world: World) -> None:
    deployments = [{"name": " is named " * 400, "taskRoles": {}}]
    text = world_file(deployments=deployments, defaults={"virtualCluster": "vision", "deployment": "x"})
    answer = Api(world.user).call("POST", "validate", text, kind="application/yaml", Accept_Language="zh-CN")
    (told,) = [one["message"] for one in answer.json()["problems"] if one["path"] == "defaults.deployment"]
    assert CHINESE.search(told)
    assert len(told) < 200


@pytest.mark.django_db
def test_a_hint_is_told_in_the_language_that_is_asked_for(world: World) -> None:
    headers: list[dict[str, str]] = [{}, {"Accept_Language": "zh-CN"}]
    api, text = Api(world.user), world_file()
    told = [
        json.loads(api.call("POST", "validate", text, kind="application/yaml", **one).content)["hints"]
        for one in headers
    ]
    assert told[0][0].startswith("No shared storage is set up")
    assert CHINESE.search(told[1][0])


@pytest.mark.django_db
def test_plug_ins_without_effect_are_told_and_others_are_not(world: World) -> None:
    names = ["git", "image_checker", "tensorboard", "cmd"]
    plugins = [{"plugin": name, "parameters": {"repo_uri": "x"}} for name in names]
    api, text = Api(world.user), world_file(extras={"com.microsoft.pai.runtimeplugin": plugins})
    told = [
        json.loads(api.call("POST", "validate", text, kind="application/yaml", Accept_Language=one).content)["hints"]
        for one in ("en", "zh-CN")
    ]
    for hints, words in zip(told, ("has no effect here", "在这里不起作用"), strict=True):
        assert [name for hint in hints for name in names if f"{name} {words}" in hint] == names[1:3]
