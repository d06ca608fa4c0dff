"""Pages in the reader's language: who chooses it, how it is kept, and that no text was forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.test import override_settings
from django.utils import translation

from portal.accounts.models import Audited, AuditEntry, ClusterRole
from portal.accounts.services import language_set
from portal.hardware.doomed import DoomedCells, doomed_keep
from portal.hardware.models import Gpu, Node
from portal.hardware.wordings import NO_REPORT
from portal.storages.services.storages import storage_create
from scripts.languages import catalogues, problems
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

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


@pytest.fixture
def collected() -> Iterator[None]:
    """Files of other packages are found where they are installed."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    with override_settings(STORAGES={**settings.STORAGES, "staticfiles": plain}):
        yield


@pytest.mark.django_db
@pytest.mark.usefixtures("collected")
def test_the_page_around_the_documented_api_has_the_readers_language_and_the_document_its_own() -> None:
    page = Browser().get("/api/docs", accept_language=CHINESE)
    assert page.attribute("html", "lang") == ["zh-hans"]
    assert next(tag["lang"] for _kind, tag in page.tags if tag.get("id") == "swagger-ui") == "en"
    assert "登录" in page.text


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


@pytest.mark.django_db
def test_what_is_refused_on_a_page_is_told_in_chinese() -> None:
    world, root = World(), person("root", ClusterRole.ADMIN)
    world.node("gpu01", gpus=1)
    language_set(user=root, language="zh-hans", now=world.now)
    job = world.submit()
    browser = Browser(root)
    taken = browser.send("/new-user", username=world.user.username, role="user", password="", uid="")
    assert f"已有用户 {world.user.username}。" in taken.text
    again = browser.send("/new-virtual-cluster", name=world.vc.name, description="", host_network="False")
    assert f"已有名为 {world.vc.name} 的虚拟集群" in again.text
    storage = browser.send("/new-storage", name="data", kind="path", root="/etc/data", export="")
    assert "/etc/data 属于系统" in storage.text
    table = browser.send("/users/import", table="username,colour\nalice,red\n")
    assert "没有这一列" in table.text
    gone = browser.get(f"/jobs/{job.pk + 1}")
    assert (gone.status, f"作业 {job.pk + 1}" in gone.text) == (404, True)
    denied = Browser(person("charlie")).get("/alerts", accept_language=CHINESE)
    assert (denied.status, "页面" in denied.text) == (404, True)


@pytest.mark.django_db
def test_alerts_are_told_in_chinese_to_who_reads_chinese_and_in_english_to_programs() -> None:
    world, root = World(), person("root", ClusterRole.ADMIN)
    for name in ("gpu01", "gpu02"):
        world.node(name, gpus=1)
    lost = NO_REPORT(time="12:00:00", seconds=60)
    Node.objects.filter(name="gpu01").update(health="lost", health_reason=lost)
    Node.objects.filter(name="gpu02").update(clock_skew_ms=90_000)
    Gpu.objects.filter(node__name="gpu02").update(present=False)
    storage_create(name="data", root="/mnt/data", vcs=[world.vc], now=world.now, actor="root")
    doomed_keep({world.vc.name: [DoomedCells("A100", "A100", 1)]})
    page = Browser(root).get("/alerts", accept_language=CHINESE)
    for told in (
        "自 12:00:00 起没有上报；60 秒后视为失联", "systemctl status berth-node", "其时钟比门户快 90 秒", "已不存在",
        "没有健康的节点提供它", "配额有风险：如果现在需要，其中 1 x A100", "没有调度器在工作",
    ):  # fmt: skip
        assert told in page.text
    for alert in Api(root).get("alerts"):
        assert (alert["message"] + alert["advice"] + alert["name"]).isascii()
        if alert["code"] != "disk_low":
            assert alert["message"] not in page.text
