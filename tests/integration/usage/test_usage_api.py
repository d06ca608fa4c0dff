"""The usage report: sums that agree however they are grouped, as JSON and CSV, and whose names who reads."""

from __future__ import annotations

import csv
import io
from datetime import date
from typing import Any
from urllib.parse import urlencode

import pytest

from portal.accounts.models import AuditEntry, ClusterRole, User
from portal.common.tables import csv_text
from portal.hardware.models import Sku
from portal.hardware.services.prices import sku_set_price
from portal.jobs.models import Job
from portal.teams.models import VirtualCluster
from portal.teams.services.teams import member_set, vc_create, vc_remove
from portal.usage.models import Measured
from portal.usage.services.rollup import usage_roll
from tests.support.cluster.usage_runs import at, rolled_from, run
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person

pytestmark = pytest.mark.django_db

HOUR = 3_600_000
SPAN = {"from": "2026-05-01", "to": "2026-05-31"}


@pytest.fixture
def people(world: World) -> dict[str, User]:
    """Alice and Bob work in vision, which Lea leads; Carol works in audio, and nothing else is known of Dan."""
    world.node("gpu01", gpus=8)
    found = {name: person(name) for name in ("bob", "lea", "carol", "dan")}
    audio = vc_create(name="audio", now=world.now)
    for name, vc, role in (
        ("bob", world.vc, "member"),
        ("lea", world.vc, "lead"),
        ("carol", audio, "member"),
        ("carol", world.vc, "member"),
    ):
        member_set(vc=vc, user=found[name], role=role, now=world.now)
    return {"alice": world.user, **found}


@pytest.fixture
def past(world: World, people: dict[str, User]) -> None:
    """In May Alice held 10 GPU hours over a midnight, Bob 4 on loan, Carol 2 in audio."""
    mine = run(world, "05-03 22:00", "05-04 03:00", gpus=2)
    Measured.objects.create(
        task_attempt=mine, day=date(2026, 5, 3), measured_ms=4 * HOUR, used_ms=3 * HOUR, idle_ms=HOUR // 2
    )
    run(world, "05-12 10:00", "05-12 14:00", user=people["bob"], borrowed=True, stop_reason="preempted")
    theirs = run(world, "05-20 10:00", "05-20 12:00", user=people["carol"])
    audio = VirtualCluster.objects.get(name="audio")
    Job.objects.filter(pk=theirs.task.job_id).update(vc=audio)
    member_set(vc=audio, user=people["carol"], role="member", now=world.now)


@pytest.fixture
def admin(world: World) -> Api:
    return Api(person("root", ClusterRole.ADMIN))


def usage(api: Api, **query: object) -> Any:
    return api.get(f"usage?{urlencode({**SPAN, **query})}")


def hours(answer: Any, *names: str) -> dict[Any, float]:
    """By the groups of that name."""
    return {tuple(row[name] for name in names): row["gpu_hours"] for row in answer["rows"]}


def test_hours_are_grouped_by_team_user_sku_and_time(world: World, past: None, admin: Api) -> None:
    rolled_from("05-01")
    expected: dict[str, dict[Any, float]] = {
        "vc": {("vision",): 14, ("audio",): 2},
        "user": {("alice",): 10, ("bob",): 4, ("carol",): 2},
        "sku": {("A100",): 16},
        "day": {("2026-05-03",): 4, ("2026-05-04",): 6, ("2026-05-12",): 4, ("2026-05-20",): 2},
        "week": {("2026-04-27",): 4, ("2026-05-04",): 6, ("2026-05-11",): 4, ("2026-05-18",): 2},
        "month": {("2026-05-01",): 16},
        "vc,user": {("vision", "alice"): 10, ("vision", "bob"): 4, ("audio", "carol"): 2},
    }
    for _ in range(2):
        for by, found in expected.items():
            names = ["period" if name in {"day", "week", "month"} else name for name in by.split(",")]
            assert hours(usage(admin, by=by), *names) == found, by
        usage_roll(now=at("06-03 12:00"))  # and once more from what is summed up


def test_a_row_tells_held_used_idle_lost_and_cost(world: World, past: None, admin: Api) -> None:
    rolled_from("05-01")
    sku_set_price(name="A100", price=Sku._meta.get_field("price").to_python("1.5"), now=world.now, actor="root")
    (vision, audio) = usage(admin)["rows"]
    assert vision == {
        "vc": "vision", "gpu_hours": 14, "guaranteed_gpu_hours": 10, "opportunistic_gpu_hours": 4,
        "grown_gpu_hours": 0,
        "measured_gpu_hours": 4, "used_gpu_hours": 3, "idle_gpu_hours": 0.5, "wasted_gpu_hours": 4, "cost": "21.00",
    }  # fmt: skip
    assert (audio["vc"], audio["cost"]) == ("audio", "3.00")
    total = usage(admin)["total"]
    assert (total["gpu_hours"], total["cost"]) == (16, "24.00")


def test_days_outside_are_left_out_and_filters_choose(world: World, past: None, admin: Api) -> None:
    rolled_from("05-01")
    assert usage(admin, **{"from": "2026-05-04", "to": "2026-05-12"})["total"]["gpu_hours"] == 10
    assert hours(usage(admin, vc="audio"), "vc") == {("audio",): 2}
    assert usage(admin, user="bob")["total"]["gpu_hours"] == 4
    assert usage(admin, sku="H100")["rows"] == []
    assert usage(admin, vc="nothing")["total"]["gpu_hours"] == 0


def test_a_name_given_again_does_not_bring_the_hours_of_who_had_it(world: World, past: None, admin: Api) -> None:
    rolled_from("05-01")
    Job.objects.filter(vc__name="audio").update(state="succeeded", ended_at=at("05-21 09:00"))
    vc_remove(vc=VirtualCluster.objects.get(name="audio"), now=at("06-01 09:00"), actor="root")
    lead = person("leo")
    member_set(vc=vc_create(name="audio", now=at("06-02 09:00")), user=lead, role="lead", now=world.now)
    for _ in range(2):
        assert hours(usage(admin, by="vc"), "vc") == {("vision",): 14, ("audio (until 2026-06-01)",): 2}
        for api in (admin, Api(lead)):
            assert usage(api, vc="audio")["total"]["gpu_hours"] == 0
        usage_roll(now=at("06-03 12:00"))


SEEN: dict[str, dict[Any, float]] = {
    "alice": {("vision", "alice"): 10, ("vision", None): 4},
    "bob": {("vision", "bob"): 4, ("vision", None): 10},
    "lea": {("vision", "alice"): 10, ("vision", "bob"): 4},
    "carol": {("vision", None): 14, ("audio", "carol"): 2},
    "dan": {},
}


@pytest.mark.parametrize("summed_up", [False, True])
def test_members_see_their_teams_sums_and_leads_who_it_was(
    world: World, past: None, people: dict[str, User], summed_up: bool
) -> None:
    rolled_from("05-01")
    if summed_up:
        usage_roll(now=at("06-03 12:00"))
    seen = {name: hours(usage(Api(one), by="vc,user"), "vc", "user") for name, one in people.items()}
    assert seen == SEEN


def test_nobody_finds_anothers_hours_by_asking_for_the_name(world: World, past: None, people: dict[str, User]) -> None:
    rolled_from("05-01")
    for reader, wanted, found in (("alice", "bob", 0), ("lea", "bob", 4), ("bob", "bob", 4), ("dan", "alice", 0)):
        assert usage(Api(people[reader]), user=wanted)["total"]["gpu_hours"] == found, reader


BAD = {
    "from=2026-05-31&to=2026-05-01": "from",
    "from=yesterday": "from",
    "from=1900-01-01": "from",
    "by=colour": "by",
    "by=day,month": "by",
    "by=vc,vc": "by",
    "by=": "by",
    "format=xml": "format",
    "vc=": "vc",
    "colour=red": "colour",
}


@pytest.mark.parametrize("query", BAD)
def test_what_cannot_be_asked_for_is_refused_by_name(admin: Api, query: str) -> None:
    answer = admin.call("GET", f"usage?{query}")
    assert answer.status_code == 400
    assert [fault["path"] for fault in answer.json()["errors"]] == [BAD[query]]


def test_csv_comes_where_it_is_asked_for(world: World, past: None, admin: Api) -> None:
    rolled_from("05-01")
    query = urlencode({**SPAN, "by": "month,vc"})
    asked = admin.call("GET", f"usage?{query}&format=csv"), admin.call("GET", f"usage?{query}", Accept="text/csv")
    for answer in asked:
        assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
        assert answer.headers["Content-Disposition"] == 'attachment; filename="usage-2026-05-01-2026-05-31.csv"'
        rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
        assert [(row["period"], row["vc"], row["gpu_hours"], row["cost"]) for row in rows] == [
            ("2026-05-01", "vision", "14.0", ""), ("2026-05-01", "audio", "2.0", ""),
        ]  # fmt: skip
    wanted_json = admin.call("GET", f"usage?{query}&format=json", Accept="text/csv")
    assert wanted_json.json()["rows"][0]["gpu_hours"] == 14


def test_a_name_in_a_table_is_never_a_formula() -> None:
    texts = ["=cmd|' /C calc'!A0", "-1+1", "@x", "+x", "\tx", "\n=x", "plain"]
    text = csv_text(["user"], [*([one] for one in texts), [None], [-1.5]])
    cells = [row["user"] for row in csv.DictReader(io.StringIO(text))]
    assert cells == ["'=cmd|' /C calc'!A0", "'-1+1", "'@x", "'+x", "'\tx", "'\n=x", "plain", "", "-1.5"]


def test_an_administrator_sets_prices_and_each_is_noted(world: World, people: dict[str, User], admin: Api) -> None:
    assert admin.call("PATCH", "skus/A100", {"price": "2.5"}).json()["price"] == "2.5000"
    assert admin.call("PATCH", "skus/A100", {"price": "2.5"}).status_code == 200
    assert admin.call("PATCH", "skus/A100", {"price": None}).json()["price"] is None
    entries = AuditEntry.objects.filter(action="sku.price").order_by("id")
    assert [(one.actor, one.target, one.before, one.after) for one in entries] == [
        ("root", "A100", {"price": None}, {"price": "2.5000"}),
        ("root", "A100", {"price": "2.5000"}, {"price": None}),
    ]
    assert admin.call("PATCH", "skus/H100", {"price": "2.5"}).status_code == 404
    assert Api(people["lea"]).call("PATCH", "skus/A100", {"price": "0"}).status_code == 403


@pytest.mark.parametrize("price", ["-1", "NaN", "1.23456", "1e20", True, {}])
def test_a_price_that_cannot_be_is_refused(world: World, people: dict[str, User], admin: Api, price: object) -> None:
    answer = admin.call("PATCH", "skus/A100", {"price": price})
    assert (answer.status_code, Sku.objects.get().price) == (400, None)
