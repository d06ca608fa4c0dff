"""The pages of administration: storages, images, hardware kinds, alerts, audit log, configuration, settings."""

from __future__ import annotations

import html
import re
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.files.uploadedfile import SimpleUploadedFile

from portal.accounts.models import AuditEntry, ClusterRole
from portal.cluster.services.configuration import configuration_export
from portal.hardware.models import Sku
from portal.images.models import ImageRule
from portal.storages.models import Storage
from portal.storages.services.storages import storage_create
from portal.teams.models import QuotaLine
from tests.support.cluster.world import World
from tests.support.people.cast import Api, cast_of, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db
DATA = {"kind": "path", "root": "/mnt/data", "virtual_clusters": "vision", "must_be_mount": "on"}


@pytest.fixture
def world() -> World:
    made = World()
    made.node("gpu01", gpus=4)
    return made


@pytest.fixture
def admin(world: World) -> Browser:
    return Browser(person("root", ClusterRole.ADMIN))


def shown(page: Any, name: str) -> str:
    return str(next(tag["value"] for kind, tag in page.tags if kind == "input" and tag.get("name") == name))


def test_a_storage_is_made_changed_and_forgotten(admin: Browser) -> None:
    assert "The storage data is made." in admin.send("/new-storage", name="data", **DATA).text
    storage = Storage.objects.get()
    assert ([vc.name for vc in storage.vcs.all()], storage.must_be_mount) == (["vision"], True)
    page = admin.send("/new-storage", name="other", **{**DATA, "root": "/etc", "virtual_clusters": "nowhere"})
    assert (page.status, shown(page, "root")) == (400, "/etc")
    assert "There is no virtual cluster nowhere." in page.text
    assert "belongs to the system" in admin.send("/new-storage", name="other", **{**DATA, "root": "/etc"}).text
    assert "data is changed." in admin.send("/storages/data", **DATA, read_only="on").text
    assert Storage.objects.get().read_only
    assert "is removed" in admin.send("/storages/data/remove", form="/storages/data").text


def told_beside(page: Any, name: str) -> str:
    """What is said to be wrong with the field of that name, found as screen readers find it."""
    tag = next(tag for _kind, tag in page.tags if tag.get("name") == name)
    assert tag.get("aria-invalid") == "true", name
    place = tag["aria-describedby"].split()[-1]
    return html.unescape(page.html.partition(f'id="{place}"')[2].partition("</div>")[0])


def test_everything_that_is_wrong_with_a_new_storage_is_told_at_once_beside_its_field(admin: Browser) -> None:
    admin.send("/new-storage", name="data", **{**DATA, "jobs": "on"})
    wrong = {"root": "/etc", "virtual_clusters": "nowhere", "export": "x", "jobs": "on", "read_only": "on"}
    page = admin.send("/new-storage", **{**DATA, **wrong}, name="no name")
    assert page.status == 400
    assert told_beside(page, "name")
    assert "belongs to the system" in told_beside(page, "root")
    assert "There is no virtual cluster nowhere." in told_beside(page, "virtual_clusters")
    assert "Only an NFS storage has one." in told_beside(page, "export")
    assert "Job folders lie in data" in told_beside(page, "jobs")
    page = admin.send("/new-storage", name="data", **{**DATA, "root": ""})
    assert "There is a storage named data already." in told_beside(page, "name")
    assert told_beside(page, "root").count("field-error") == 1
    assert Storage.objects.count() == 1


@pytest.mark.parametrize(
    ("path", "required"),
    [
        ("/new-user", ["username", "role"]),
        ("/new-group", ["name"]),
        ("/new-storage", ["name", "kind", "root"]),
        ("/new-virtual-cluster", ["name", "host_network"]),
        ("/new-node", ["name"]),
        ("/images", ["pattern"]),
        ("/virtual-clusters/vision/firm-rights", ["username", "gpus", "last_day"]),
        ("/profile/tokens", ["name"]),
    ],
)
def test_of_a_form_that_the_portal_judges_every_missing_field_is_told_beside_it(
    admin: Browser, path: str, required: list[str]
) -> None:
    page = admin.send(path, form="/profile")
    assert page.status == 400
    for name in required:
        assert "This field is required." in told_beside(page, name)
    marked = [tag for _kind, tag in page.tags if "data-faults-here" in tag]
    assert len(marked) >= len(required)


def test_all_that_is_wrong_with_an_existing_storage_is_told_beside_its_fields(world: World, admin: Browser) -> None:
    storage_create(name="homes", root="/mnt/homes", vcs=[], now=world.now, actor="root", jobs=True)
    storage_create(name="data", root="/mnt/data", vcs=[], now=world.now, actor="root")
    wrong = {"kind": "nfs", "root": "", "export": "filer", "virtual_clusters": "nowhere", "jobs": "on"}
    page = admin.send("/storages/data", **wrong)
    assert page.status == 400
    assert "This field is required." in told_beside(page, "root")
    assert "An NFS storage needs server:/export" in told_beside(page, "export")
    assert "There is no virtual cluster nowhere." in told_beside(page, "virtual_clusters")
    assert "Job folders lie in homes" in told_beside(page, "jobs")
    assert Storage.objects.get(name="data").kind == "path"


def test_a_storage_that_a_job_uses_says_beside_its_place_that_it_stays(world: World, admin: Browser) -> None:
    storage_create(name="homes", root="/mnt/homes", vcs=[], now=world.now, actor="root", jobs=True)
    world.submit(name="reads")
    page = admin.send("/storages/homes", kind="path", root="/mnt/else", jobs="on", export="filer:/x")
    assert "Jobs use homes (alice/reads#1)" in told_beside(page, "root")
    assert "Only an NFS storage has one" in told_beside(page, "export")


def test_of_two_who_change_one_storage_the_second_is_told(admin: Browser) -> None:
    admin.send("/new-storage", name="data", **DATA)
    seen = shown(admin.get("/storages/data"), "seen")
    Storage.objects.update(per_user=True)
    page = admin.send("/storages/data", **{**DATA, "root": "/mnt/other"}, seen=seen)
    assert (page.status, shown(page, "root")) == (409, "/mnt/other")
    assert "Somebody else changed this" in page.text


def test_members_read_the_storages_that_their_jobs_may_mount(world: World) -> None:
    storage_create(name="ours", root="/mnt/ours", vcs=[world.vc], now=world.now, actor="root")
    storage_create(name="theirs", root="/mnt/theirs", vcs=[], now=world.now, actor="root")
    page = Browser(world.user).get("/storages")
    assert ("ours" in page.text, "theirs" in page.text, "Create a storage" in page.text) == (True, False, False)
    assert Browser(world.user).get("/storages/theirs").status == 404
    assert Browser(world.user).get("/storages/ours").status == 403


def test_images_are_allowed_and_taken_off_the_list(admin: Browser) -> None:
    assert "Every image may run" in admin.get("/images").text
    page = admin.send("/images", pattern="nvcr.io/*", vc="vision", note="vendor")
    assert "nvcr.io/* vision as the virtual cluster says vendor" in page.text
    page = admin.send("/images", pattern="nvcr.io/*", vc="vision")
    assert (page.status, "already" in page.text) == (400, True)
    page = admin.send("/images", pattern="a b", vc="nowhere")
    assert "Part of an image's name" in told_beside(page, "pattern")
    assert "There is no virtual cluster nowhere." in told_beside(page, "vc")
    assert "There is no virtual cluster nowhere." in admin.send("/images", pattern="a", vc="nowhere").text
    admin.send(f"/images/{ImageRule.objects.get().pk}/remove", form="/images")
    assert not ImageRule.objects.exists()


def test_hardware_kinds_show_their_shares_and_take_a_price(world: World, admin: Browser) -> None:
    sku = Sku.objects.get()
    page = admin.get("/skus")
    assert f"{sku.cpu_milli / 1000:g} cores" in Browser(world.user).get("/skus").text
    assert shown(page, "cores") == f"{sku.cpu_milli / 1000:g}"
    assert "What goes with A100 is set." in admin.send("/skus", sku="A100", cores="7.5", memory="4096").text
    sku.refresh_from_db()
    assert (sku.cpu_milli, sku.memory_mb) == (7500, 4096)
    page = admin.send("/skus", sku="A100", cores="0", memory="12")
    assert (page.status, shown(page, "cores"), shown(page, "memory")) == (400, "0", "12")
    page = admin.send("/skus", sku="A100", cores="0", memory="0")
    assert "CPU cores: Ensure" in told_beside(page, "cores")
    assert "Memory, MB: Ensure" in told_beside(page, "memory")
    assert "The price of A100 is set." in admin.send("/skus", sku="A100", price="2.5").text
    page = admin.send("/skus", sku="A100", price="-1")
    assert (page.status, shown(page, "price")) == (400, "-1")
    assert "greater than or equal to 0" in told_beside(page, "price")
    assert Browser(world.user).send("/skus", form="/profile", sku="A100", price="1").status == 403
    assert admin.send("/skus", sku="H1", price="1").status == 404


def test_alerts_say_what_to_do_and_only_to_those_whom_they_concern(world: World, admin: Browser) -> None:
    storage_create(name="data", root="/mnt/data", vcs=[world.vc], now=world.now, actor="root")
    page = admin.get("/alerts")
    assert "warning storage data No healthy node offers it. Mount it at /mnt/data there" in page.text
    people = cast_of(world.vc, world.user)
    assert "data" in Browser(people["lead"]).get("/alerts").text
    assert "Nothing is wrong." in Browser(people["other"]).get("/alerts").text
    assert Browser(people["member"]).get("/alerts").status == 404


def test_the_audit_log_is_filtered_paged_and_taken_away(world: World, admin: Browser) -> None:
    for _ in range(2):
        admin.send("/new-virtual-cluster", name="audio", host_network="False")
        admin.send("/virtual-clusters/audio/remove")
    page = admin.get("/audit?actor=root&action=vc.create")
    assert page.text.count("Made a virtual cluster audio") == 2
    assert page.links["Export"] == "/api/v1/audit/export?actor=root&action=vc.create"
    assert "No entry matches these filters." in admin.get("/audit?since=2999-01-01").text
    both = admin.get("/audit?since=1999-01-01&until=2999-12-31&vc=audio").links["Export"]
    assert "since=1999-01-01T00%3A00%3A00Z&until=3000-01-01T00%3A00%3A00Z" in both
    assert Api(person("ada", ClusterRole.AUDITOR)).call("GET", both.removeprefix("/api/v1/")).status_code == 200
    assert admin.get("/audit?since=yesterday").status == 400
    crossed = admin.get("/audit?since=2026-02-02&until=2026-02-01")
    assert (crossed.status, "This is before the first day." in crossed.text) == (400, True)
    assert {"2026-02-02", "2026-02-01"} <= {*crossed.attribute("input", "value")}, "what was typed is kept"
    assert Browser(world.user).get("/audit").status == 404


def test_a_long_audit_log_has_pages(world: World, admin: Browser) -> None:
    told = {"at": world.now, "actor": "root", "via": "web", "action": "group"}
    AuditEntry.objects.bulk_create(AuditEntry(**told, target=f"g{number:03}") for number in range(120))
    first = admin.get("/audit?actor=root")
    older = admin.get("/audit" + first.links["Older"].removeprefix("/audit"))
    assert ("g119" in first.text, "g119" in older.text, "g000" in older.text) == (True, False, True)
    assert "Older" not in older.links


def test_a_configuration_is_looked_at_before_it_is_made(world: World, admin: Browser) -> None:
    world.submit(gpu=4)
    world.settle()
    text = yaml.safe_dump(configuration_export())
    assert "physicalCluster" in admin.get("/cluster/configuration").html
    assert yaml.safe_load(admin.get("/cluster/configuration?download").html) == configuration_export()
    less = {**configuration_export(), "virtualClusters": {"vision": {"virtualCells": []}}}
    look = admin.send("/cluster/configuration", file=SimpleUploadedFile("c.yaml", yaml.safe_dump(less).encode()))
    assert "1 running job with 4 GPUs would lose its guarantee." in look.text
    assert "Virtual cluster Cells Now Then vision A100 4 0" in look.text
    assert QuotaLine.objects.get().count == 4
    done = admin.send("/cluster/configuration", document=yaml.safe_dump(less), apply="on")
    assert "No job was stopped." in done.text
    assert not QuotaLine.objects.exists()
    admin.send("/cluster/configuration", document=text, apply="on")
    stale = admin.send("/cluster/configuration", document=yaml.safe_dump(less), seen=1, apply="on")
    assert (stale.status, "changed by somebody else" in stale.text) == (409, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "This is no YAML"),
        ("a: &a [1]\nb: *a", "Anchors and aliases are not taken"),
        ("[1]", "A configuration has physicalCluster"),
        ("virtualClusters: 7", "virtualClusters"),
        ("[" * 5000, "This is no YAML"),
    ],
)
def test_a_configuration_that_is_none_is_refused_and_kept(admin: Browser, text: str, said: str) -> None:
    page = admin.send("/cluster/configuration", document=text)
    assert (page.status, said in page.text) == (400, True), page.text
    assert text[:20].replace("&", "&amp;") in page.html


def test_settings_are_shown_without_secrets(world: World, admin: Browser, settings: Any) -> None:
    settings.REDIS_URL = "redis://:pa55word@redis.example.org:6379/0"
    page = admin.get("/settings")
    assert "redis://redis.example.org:6379" in page.text
    assert "pa55word" not in page.html
    assert "BERTH_LOG_RETENTION_DAYS days for which logs are kept 90" in page.text
    rows = Api(person("ada", ClusterRole.AUDITOR)).get("settings")
    assert {"BERTH_CLUSTER", "BERTH_EMAIL_URL"} <= {row["name"] for row in rows}
    assert Browser(world.user).get("/settings").status == 404


SETTINGS = (Path(__file__).parents[3] / "portal" / "settings.py").read_text()


def test_each_setting_of_the_environment_is_shown_but_for_secrets(admin: Browser, settings: Any) -> None:
    settings.WEBHOOK_ALLOW = [ip_network("10.1.2.0/24"), ip_network("192.0.2.7")]
    page = admin.get("/settings")
    read = re.findall(r'\b(env_\w+)\("(BERTH_\w+)"', SETTINGS)
    assert len(read) > 60
    assert [name for how, name in read if how != "env_secret" and f" {name} " not in page.text] == []
    assert [name for _, name in read if name.endswith(("_KEY", "_PASSWORD")) and name in page.text] == []
    assert "BERTH_IDLE_START_MINUTES first minutes of a task that count as work for the idle policy 10" in page.text
    assert "10.1.2.0/24, 192.0.2.7/32" in page.text
    assert "tries to log in, for each account and address 10/hour" in page.text


def test_nobody_else_administers(world: World) -> None:
    people = cast_of(world.vc, world.user)
    for who in ("auditor", "lead", "member"):
        browser = Browser(people[who])
        assert [browser.get(path).status for path in ("/new-storage", "/cluster/configuration")] == [403, 404]
        assert browser.send("/images", form="/profile", pattern="*").status == 403


def test_more_rows_take_no_more_queries(world: World, admin: Browser) -> None:
    paths = ("/storages", "/images", "/audit", "/alerts")
    for number in range(2):
        storage_create(name=f"s{number}", root=f"/mnt/s{number}", vcs=[world.vc], now=world.now, actor="root")
        admin.send("/images", pattern=f"a{number}", vc="vision")
    before = [admin.queries(path) for path in paths]
    for number in range(2, 9):
        storage_create(name=f"s{number}", root=f"/mnt/s{number}", vcs=[world.vc], now=world.now, actor="root")
        admin.send("/images", pattern=f"a{number}", vc="vision")
    assert [admin.queries(path) for path in paths] == before
