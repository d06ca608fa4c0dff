"""An alert that gets worse is told, silenced or not: who put up with a warning has not put up with what is critical."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from portal.accounts.models import ClusterRole, User
from portal.alerts.models import AlertSilence
from portal.alerts.silences import silence_set
from portal.alerts.telling import BEGUN_AFTER, OVER_AFTER
from portal.hardware.models import Node
from portal.notices.models import Delivery
from portal.storages.services.storages import storage_create
from portal.teams.services.teams import member_set
from tests.integration.notices.telling import hook
from tests.integration.scheduler.looking import looks, quiet_world
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db
KEY = "storage_missing:storage:jobs"
ROOT = "/mnt/jobs"
STEP = timedelta(seconds=30)


@pytest.fixture
def world(settings: Settings) -> World:
    """Two nodes; the storage of job folders is offered by one of them, which is a warning."""
    made = quiet_world(settings)
    storage_create(name="jobs", root=ROOT, vcs=[], jobs=True, now=made.now, actor="root")
    offered_by("gpu01")
    return made


@pytest.fixture
def root(world: World) -> User:
    return person("root", ClusterRole.ADMIN)


def offered_by(*names: str) -> None:
    Node.objects.update(storages=[])
    Node.objects.filter(name__in=names).update(storages=[ROOT])


def look_for(start: datetime, lasting: timedelta) -> datetime:
    return looks(start, lasting, step=STEP)


def told() -> list[tuple[str, str]]:
    bodies = [json.loads(one.body) for one in Delivery.objects.order_by("id")]
    return [(body["type"], body["data"]["alert"]["severity"]) for body in bodies]


def silence(now: datetime) -> None:
    silence_set(key=KEY, reason="a new mount", until=now + timedelta(days=1), actor="root", now=now)


def row_of(api: Api) -> dict[str, Any]:
    (row,) = [row for row in api.get("alerts") if row["key"] == KEY]
    return dict(row)


def test_where_no_row_tells_it_is_since_the_first_look_that_found_it(world: World, root: User) -> None:
    api = Api(root)
    assert row_of(api)["since"] is None, "nobody has looked"
    look_for(world.now, 3 * BEGUN_AFTER)
    assert datetime.fromisoformat(row_of(api)["since"]) == world.now


def test_a_warning_that_was_told_is_told_anew_as_critical_once_and_not_as_a_warning_again(world: World) -> None:
    hook("https://example.org", "alert.begun", "alert.over")
    now = look_for(world.now, 2 * BEGUN_AFTER)
    assert told() == [("alert.begun", "warning")]
    offered_by()
    now = look_for(now, BEGUN_AFTER - STEP)
    assert len(told()) == 1, "it may be better in a moment"
    now = look_for(now, 2 * BEGUN_AFTER)
    both = [("alert.begun", "warning"), ("alert.begun", "critical")]
    assert told() == both
    offered_by("gpu01")
    now = look_for(now, OVER_AFTER - 2 * STEP)
    offered_by()
    now = look_for(now, 2 * BEGUN_AFTER)
    assert told() == both, "what comes and goes is told once"
    offered_by("gpu01")
    now = look_for(now, OVER_AFTER + STEP)
    assert told() == both, "a milder one is not told"
    offered_by()
    now = look_for(now, 2 * BEGUN_AFTER)
    assert told() == [*both, ("alert.begun", "critical")], "it was better for long"
    offered_by("gpu01", "gpu02")
    look_for(now, OVER_AFTER + STEP)
    assert told()[3:] == [("alert.over", "critical")]


def test_a_silence_of_a_warning_says_nothing_of_a_critical_one_and_counts_again_afterwards(world: World) -> None:
    hook("https://example.org", "alert.begun", "alert.over")
    silence(world.now)
    now = look_for(world.now, 2 * BEGUN_AFTER)
    assert told() == []
    offered_by()
    now = look_for(now, 2 * BEGUN_AFTER)
    assert told() == [("alert.begun", "critical")]
    offered_by("gpu01")
    now = look_for(now, OVER_AFTER + STEP)
    assert told()[1:] == [("alert.over", "critical")], "the warning that is left is silenced"
    offered_by()
    silence(now)
    offered_by("gpu01")
    now = look_for(now, 2 * BEGUN_AFTER)
    offered_by()
    look_for(now, 2 * BEGUN_AFTER)
    assert len(told()) == 2, "silenced as critical: whatever it is"


def test_pages_and_answers_show_it_as_told_with_the_silence_that_does_not_cover_it(world: World, root: User) -> None:
    silence(timezone.now())
    api, browser = Api(root), Browser(root)
    lead = person("lead")
    member_set(vc=world.vc, user=lead, role="lead", now=world.now)
    assert (row_of(api)["silence"]["severity"], api.get("alert-silences")) == ("warning", [row_of(api)["silence"]])
    assert "No healthy node offers it." not in browser.get("/alerts/brief").text
    offered_by()
    row = row_of(api)
    assert (row["severity"], row["silence"]) == ("critical", None)
    for one in (api, Api(lead)):
        assert [(row["key"], row["severity"]) for row in one.get("alert-silences")] == [(KEY, "warning")]
    assert "storage jobs No healthy node offers it." in browser.get("/alerts/brief").text
    page = browser.get("/alerts")
    assert "is worse than it was silenced" in page.text
    assert f"jobs {KEY} warning a new mount" in page.text
    silence(timezone.now())
    assert row_of(api)["silence"]["severity"] == "critical"
    assert AlertSilence.objects.get().severity == "critical"
