"""Pages in the reader's language: who chooses it, how it is kept, and that no text was forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings
from django.utils import translation

from portal.accounts.models import Audited, AuditEntry
from portal.accounts.services import language_set
from scripts.languages import catalogues, problems
from tests.support.cast import Api, person
from tests.support.pages import Browser
from tests.support.world import World

CHINESE = "zh-CN,zh;q=0.9,en;q=0.8"


@pytest.mark.parametrize(("path", "catalog"), [pytest.param(*one, id=one[0].parts[-3]) for one in catalogues()])
def test_every_marked_text_is_translated_with_the_same_placeholders(path: Path, catalog: object) -> None:
    assert list(problems(catalog)) == [], "run: .venv/bin/python -m scripts.languages update, then translate"  # type: ignore[arg-type]
    assert path.with_suffix(".mo").stat().st_mtime >= path.stat().st_mtime, "run: make setup"


@pytest.mark.django_db
def test_a_page_comes_in_the_language_that_the_browser_asks_for() -> None:
    asked = Browser().get("/login", accept_language=CHINESE)
    assert "登录" in asked.text
    assert asked.attribute("html", "lang") == ["zh-hans"]
    assert "Accept-Language" in asked.headers["Vary"]
    assert asked.headers["Content-Language"] == "zh-hans"
    other = Browser().get("/login", accept_language="fr")
    assert "Log in to" in other.text
    assert other.attribute("html", "lang") == ["en"]


@pytest.mark.django_db
def test_who_is_not_logged_in_chooses_for_this_browser() -> None:
    browser = Browser()
    assert "登录" in browser.send("/language", "/login", language="zh-hans", next="/login").text
    assert "登录" in browser.get("/login").text
    assert "Log in to" in browser.send("/language", "/login", language="en", next="/login").text
    refused = browser.send("/language", "/login", language="xx", next="https://example.org/")
    assert refused.status == 200
    assert "Log in to" in refused.text


@pytest.mark.django_db
def test_what_an_account_has_chosen_holds_in_every_browser() -> None:
    alice = person("alice")
    page = Browser(alice).send("/language", "/profile", language="zh-hans", next="/profile")
    assert "令牌" in page.text
    assert "令牌" in Browser(alice).get("/profile", accept_language="en").text
    entry = AuditEntry.objects.get(action=Audited.USER_CHANGE)
    assert (entry.actor, entry.before, entry.after) == ("alice", {"language": ""}, {"language": "zh-hans"})
    assert "Tokens" in Browser(alice).send("/language", "/profile", language="", next="/profile").text


@pytest.mark.django_db
def test_the_api_speaks_english_whatever_is_asked_for() -> None:
    alice = person("alice")
    api = Api(alice)
    assert api.call("PATCH", "me", {"language": "zh-hans"}).json()["language"] == "zh-hans"
    assert api.get("me")["language"] == "zh-hans"
    answer = api.call("GET", "jobs/77", accept_language=CHINESE)
    assert answer.json()["detail"] == "There is no job 77 that you may see."
    assert "Vary" not in answer.headers or "Accept-Language" not in answer.headers["Vary"]
    assert api.call("PATCH", "me", {"language": "xx"}).status_code == 400


@pytest.mark.django_db
def test_the_pages_come_in_chinese_and_what_they_store_stays_english() -> None:
    world = World()
    world.node("gpu01", gpus=1)
    job = world.submit()
    language_set(user=world.user, language="zh-hans", now=world.now)
    browser = Browser(world.user)
    for path in ("/", "/jobs", f"/jobs/{job.pk}", "/queue", "/submit", "/cluster", "/usage", "/virtual-clusters"):
        page = browser.get(path)
        assert (page.status, "虚拟集群" in page.text) == (200, True), path
    assert "等待中" in browser.get(f"/jobs/{job.pk}").text
    assert translation.get_language() == settings.LANGUAGE_CODE
    browser.send(f"/jobs/{job.pk}/stop")
    job.refresh_from_db()
    assert job.end_message.isascii()
