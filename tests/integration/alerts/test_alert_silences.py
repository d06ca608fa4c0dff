"""Silences: an alert that nobody wants to hear of for a while is shown with who said so, why, and until when."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from portal.accounts.models import Audited, AuditEntry, ClusterRole, User
from portal.alerts.models import AlertSilence
from portal.hardware.models import Node
from portal.hardware.wordings import NO_REPORT
from portal.teams.services.teams import member_set
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db
KEY = "node_lost:node:gpu01"


@pytest.fixture
def world() -> World:
    """Two nodes, of which one is lost with the task of a job."""
    made = World()
    made.node("gpu01", gpus=1)
    made.submit()
    made.settle()
    made.node("gpu02", gpus=1)
    Node.objects.filter(name="gpu01").update(health="lost", health_reason=NO_REPORT(time="noon", seconds=60))
    return made


@pytest.fixture
def root(world: World) -> User:
    return person("root", ClusterRole.ADMIN)


@pytest.fixture
def admin(root: User) -> Api:
    return Api(root)


def in_hours(hours: float) -> str:
    return (timezone.now() + timedelta(hours=hours)).isoformat()


def row_of(api: Api, key: str = KEY) -> dict[str, Any]:
    found: dict[str, Any] = next(row for row in api.get("alerts") if row["key"] == key)
    return found


def test_it_is_shown_with_who_why_and_until_when_and_ends_by_itself(world: World, admin: Api) -> None:
    assert row_of(admin)["silence"] is None
    made = admin.call("POST", "alert-silences", {"key": KEY, "reason": "new fan", "until": in_hours(2)})
    assert made.status_code == 201
    silence = row_of(admin)["silence"]
    assert silence == made.json()
    assert (silence["author"], silence["reason"], silence["name"]) == ("root", "new fan", "gpu01")
    assert admin.get("alert-silences") == [silence]
    AlertSilence.objects.update(until=timezone.now())
    assert row_of(admin)["silence"] is None
    assert admin.get("alert-silences") == []
    assert admin.call("DELETE", f"alert-silences/{silence['id']}").status_code == 404


def test_a_second_one_takes_the_place_of_the_first_and_each_stands_in_the_audit_log(world: World, admin: Api) -> None:
    for reason in ("new fan", "the fan is late"):
        admin.call("POST", "alert-silences", {"key": KEY, "reason": reason, "until": in_hours(2)})
    (silence,) = admin.get("alert-silences")
    assert silence["reason"] == "the fan is late"
    assert admin.call("DELETE", f"alert-silences/{silence['id']}").status_code == 204
    assert row_of(admin)["silence"] is None
    entries = AuditEntry.objects.filter(action=Audited.ALERT_SILENCE).order_by("id")
    found = [(one.target, (one.before or {}).get("reason"), (one.after or {}).get("reason")) for one in entries]
    assert found == [
        (KEY, None, "new fan"), (KEY, "new fan", "the fan is late"), (KEY, "the fan is late", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"until": "2020-01-01T00:00:00Z"}, 400),
        ({"until": "2999-01-01T00:00:00Z"}, 400),
        ({"reason": ""}, 400),
        ({"key": "node_lost:node:gpu02"}, 404),
    ],
)
def test_without_reason_end_or_alert_there_is_none(
    world: World, admin: Api, change: dict[str, str], status: int
) -> None:
    body = {"key": KEY, "reason": "new fan", "until": in_hours(2), **change}
    assert admin.call("POST", "alert-silences", body).status_code == status
    assert not AlertSilence.objects.exists()


def test_a_lead_reads_the_silence_of_what_concerns_the_team_and_sets_none(world: World, admin: Api) -> None:
    admin.call("POST", "alert-silences", {"key": KEY, "reason": "new fan", "until": in_hours(2)})
    user = person("lead")
    member_set(vc=world.vc, user=user, role="lead", now=world.now)
    lead = Api(user)
    assert [one["reason"] for one in lead.get("alert-silences")] == ["new fan"]
    again = {"key": KEY, "reason": "hush", "until": in_hours(2)}
    assert lead.call("POST", "alert-silences", again).status_code == 403
    assert Api(world.user).get("alert-silences") == []
    assert "Silence it" not in Browser(user).get("/alerts").text


def test_on_the_page_it_is_set_with_a_reason_and_ended_early(world: World, root: User) -> None:
    browser = Browser(root)
    page = browser.get(f"/alerts/silence?key={KEY}")
    assert "No report since noon; given up after 60 s." in page.text
    refused = browser.send("/alerts/silence", form=f"/alerts/silence?key={KEY}", key=KEY, reason="", hours="4")
    assert refused.status == 400
    page = browser.send("/alerts/silence", form=f"/alerts/silence?key={KEY}", key=KEY, reason="new fan", hours="4")
    assert "gpu01 is silenced." in page.text
    assert "by root" in page.text
    assert "new fan" in page.text
    silence = AlertSilence.objects.get()
    assert timedelta(hours=3.9) < silence.until - timezone.now() <= timedelta(hours=4)
    assert "gpu01" not in browser.get("/alerts/brief").text
    Node.objects.update(health="healthy", health_reason="", last_report_at=timezone.now())
    page = browser.get("/alerts")
    assert "of what is not wrong now" in page.text
    assert KEY in page.text
    page = browser.send(f"/alerts/silences/{silence.pk}/end", form="/alerts")
    assert "gpu01 is told again." in page.text
    assert not AlertSilence.objects.exists()
