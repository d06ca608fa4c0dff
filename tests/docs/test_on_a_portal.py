"""What the pages say one types at a terminal, typed as it stands there: on a portal whose nodes are scripted."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from portal.accounts.models import AuditEntry, ClusterRole, Scope, User
from portal.accounts.services import token_create
from portal.hardware.models import CellType
from portal.idle.models import IdleExemption
from portal.images.models import ImageRule
from portal.jobs.models import Job
from portal.secrets.models import StoredSecret
from portal.storages.models import Storage
from portal.teams.services.quotas import quota_set
from portal.teams.services.teams import member_set, vc_create
from tests.hived.test_command import case_file
from tests.support.cluster.idle_scenes import Scene
from tests.support.people.cast import person
from tests.support.people.documents import ROOT
from tests.support.people.reader import Reader
from tests.unit.scheduler.test_simulate import CLUSTER, TRACE

if TYPE_CHECKING:
    from tests.support.cluster.world import World

API = "docs/user/api.md"
WATCHING = "docs/user/api-watching.md"
ADMIN_API = "docs/admin/api.md"
ACCOUNTS = "docs/admin/accounts.md"


def signed_in(reader: Reader, user: User) -> Reader:
    """The reader with a token of this user's in `TOKEN`."""
    now = timezone.now()
    made = token_create(user=user, name="docs", scope=Scope.ADMIN, now=now, expires_at=None)
    reader.environment["TOKEN"] = made.secret
    return reader


@pytest.fixture
def alice(reader: Reader, world: World) -> Reader:
    """Alice is in the virtual clusters vision and research, of four GPUs each."""
    world.node("gpu01", gpus=8)
    research = vc_create(name="research", host_network=True, now=world.now)
    member_set(vc=research, user=world.user, role="member", now=world.now)
    kind = CellType.objects.get(child__isnull=True)
    for vc in (world.vc, research):
        quota_set(vc=vc, cell_type=kind, count=4, now=world.now)
    return signed_in(reader, world.user)


@pytest.fixture
def root(reader: Reader, world: World) -> Reader:
    """An administrator, of whose portal a quota has been changed."""
    world.node("gpu01")
    quota_set(vc=world.vc, cell_type=CellType.objects.get(child__isnull=True), count=3, now=world.now)
    return signed_in(reader, person("root", ClusterRole.ADMIN))


def last(said: dict[str, str]) -> Any:
    """What the last command of a section printed, from JSON."""
    return json.loads([*said.values()][-1])


# ---------------------------------------------------------------- the API, as its users have it


def test_users_sign_in_submit_tag_store_and_count(alice: Reader, world: World) -> None:
    url = alice.environment["BERTH"]
    said = alice.section(API, "Signing in", words={"http://127.0.0.1:8000": url, "…": "correct horse"})
    assert last(said)["username"] == "alice"
    assert last(alice.section(API, "Submitting"))["name"] == "hello"

    _, second, third = (world.submit(gpu=4).pk for _ in range(3))
    world.settle()
    alice.section(API, "Tags, classes and places", words={"4711": str(third), "4690": str(second)})
    assert Job.objects.get(pk=third).queue_ms is not None

    (alice.folder / "project").mkdir()
    (alice.folder / "project" / "train.py").write_text("print('trained')\n")
    assert last(alice.section(API, "Code that comes with a job"))["entries"] == 1
    alice.section(API, "Secrets and registry log-ins")
    assert StoredSecret.objects.count() == 2
    assert last(alice.section(WATCHING, "Notices"))["kinds"] == ["failed", "preempted"]
    alice.section(WATCHING, "GPU hours")
    assert (alice.folder / "may.csv").read_text().startswith("user,sku,period,")


def test_an_idle_job_is_asked_about_put_off_and_excepted(reader: Reader, world: World) -> None:
    scene = Scene(world)
    scene.policy()
    scene.idle(10)
    scene.judge()
    signed_in(reader, person("root", ClusterRole.ADMIN))
    said = reader.section(WATCHING, "Idle GPUs", words={"12": str(scene.job.pk)})
    assert [json.loads(text) for text in said.values()][1]["extensions_left"] == 0
    assert IdleExemption.objects.get().pattern == "notebook-*"
    assert last(reader.section("docs/admin/usage.md", "Idle GPUs"))["would_warn"] == []


# ---------------------------------------------------------------- the API, as administrators have it


def test_administrators_bring_people_storages_images_and_templates(root: Reader) -> None:
    said = last(root.section(ADMIN_API, "People"))
    assert said["rows"]
    root.section(ADMIN_API, "Storages")
    assert Storage.objects.get().name == "datasets"
    kept = ImageRule.objects.create(pattern="busybox", created_at=timezone.now())
    root.section(ADMIN_API, "Images", words={"images/7": f"images/{kept.pk}"})
    assert [one.pattern for one in ImageRule.objects.all()] == ["nvcr.io/nvidia/*"]
    assert [one["name"] for one in last(root.section(API, "Templates"))["results"]] == ["hello"]


def test_the_audit_log_is_filtered_and_taken_away(root: Reader) -> None:
    root.section(ACCOUNTS, "The audit log")
    first = json.loads((root.folder / "audit.jsonl").read_text().splitlines()[0])
    assert first["action"] == "quota.set"
    rows = [*csv.DictReader((root.folder / "audit.csv").read_text().splitlines())]
    assert len(rows) >= AuditEntry.objects.count() - 1


def test_the_webhook_is_set_tried_and_looked_after(root: Reader) -> None:
    (row,) = last(root.section("docs/admin/webhook.md", "The webhook"))["results"]
    assert (row["kind"], row["state"]) == ("ping", "waiting")


# ---------------------------------------------------------------- on the portal's server


def test_a_configuration_goes_out_and_in_again(root: Reader) -> None:
    said = root.section("docs/admin/quotas.md", "A configuration in HiveD's form")
    assert "vision" in (root.folder / "cluster.yaml").read_text()
    assert len(said) == 3


def test_accounts_are_helped_by_hand(reader: Reader, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    code, password = (text.strip() for text in reader.section(ACCOUNTS, "The first administrator").values())
    assert len(code) > 8
    assert User.objects.get(username="root").check_password(password)
    person("bob")
    User.objects.filter(pk=person("carol").pk).update(uid=None)
    said = reader.section(ACCOUNTS, "Accounts on the command line")
    assert not User.objects.get(username="root").check_password(password)
    assert User.objects.get(username="alice").role == ClusterRole.ADMIN
    assert not User.objects.get(username="bob").is_active
    assert User.objects.get(username="carol").uid
    # It reads the terminal itself, which is that of whoever runs the tests.
    ask = "portal.accounts.management.commands.reset_password.getpass"
    monkeypatch.setattr(ask, lambda _: sys.stdin.readline().rstrip("\n"))
    asked = "manage.py reset_password alice --ask"
    said = reader.section(ACCOUNTS, "Lost passwords", typed={asked: "battery-staple-horse\n" * 2})
    assert "/password/new/" in said["manage.py reset_password alice"]
    assert User.objects.get(username="alice").check_password("battery-staple-horse")


def test_what_a_portal_of_many_should_not_lack_is_asked(reader: Reader) -> None:
    reader.section("docs/admin/security.md", "Before others use it")
    assert "berth" in reader.complaint(0)


def test_the_data_folder_is_taken(reader: Reader) -> None:
    said = reader.section("docs/admin/processes.md", "The data folder")
    assert [text.endswith("is the data folder of this database.\n") for text in said.values()] == [True, True]


# ---------------------------------------------------------------- without any portal


def test_a_trace_is_simulated_and_hiveds_cases_are_replayed(reader: Reader) -> None:
    (reader.folder / "cluster.json").write_text(json.dumps(CLUSTER))
    with gzip.open(reader.folder / "trace.csv.gz", "wt") as file:
        file.write(TRACE)
    reader.section("docs/simulator.md", "The simulator")
    assert json.loads((reader.folder / "results.json").read_text())["jobs"]
    assert (reader.folder / "chart.png").stat().st_size > 1000
    case_file(reader.folder, "wait").rename(reader.folder / "streams.json")
    case_file(reader.folder, "bind")
    reader.environment["PYTHONPATH"] = str(ROOT)
    said = reader.section("docs/figures.md", "HiveD's cases")
    assert [json.loads(text)["differences"] for text in said.values()] == [0, 0]
