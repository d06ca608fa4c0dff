"""The usage page: what was held beside what was used, as everybody may see it, and what its address keeps."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from django.conf import LazySettings

from portal.accounts.models import ClusterRole, User
from portal.hardware.services.prices import sku_set_price
from portal.teams.services.teams import member_set
from portal.usage.models import Measured
from tests.support.cluster.usage_runs import an_extra_task, rolled_from, run
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db

HOUR = 3_600_000
MAY = "first=2026-05-01&last=2026-05-31"


@pytest.fixture
def bob(world: World) -> User:
    """In May Alice held 10 GPU hours and used 3 of 4 measured ones, Bob 4 on loan."""
    world.node("gpu01", gpus=8)
    bob = person("bob")
    member_set(vc=world.vc, user=bob, role="member", now=world.now)
    mine = run(world, "05-03 10:00", "05-03 15:00", gpus=2)
    Measured.objects.create(
        task_attempt=mine, day=date(2026, 5, 3), measured_ms=4 * HOUR, used_ms=3 * HOUR, idle_ms=HOUR // 2
    )
    run(world, "05-12 10:00", "05-12 14:00", user=bob, borrowed=True, stop_reason="preempted")
    rolled_from("05-01")
    return bob


@pytest.fixture
def root(bob: User) -> Browser:
    return Browser(person("root", ClusterRole.ADMIN))


def test_sums_table_and_charts_say_what_was_held_and_used(root: Browser) -> None:
    page = root.get(f"/usage?{MAY}&by=user")
    assert "14 GPU hours held 75 % really used 0.5 hours idle 4 hours of work lost 4 hours on loan" in page.text
    assert "alice 10.0 75 % 0.5 0.0 0.0" in page.text
    assert "bob 4.0 not measured 0.0 4.0 4.0" in page.text
    assert "GPU hours over time" in page.text
    assert "May 3 3 1 6" in page.text
    assert "alice 3 1 6 bob 0 0 4" in page.text, "who held most: used, not used, not measured"


def test_hours_of_extra_tasks_have_a_column_where_there_are_any(root: Browser, world: World, bob: User) -> None:
    assert "extra tasks" not in root.get(f"/usage?{MAY}&by=user").text
    an_extra_task(run(world, "05-20 10:00", "05-20 13:00", user=bob, borrowed=True))
    text = root.get(f"/usage?{MAY}&by=user").text
    assert "On loan Of these by extra tasks" in text
    assert "bob 7.0 not measured 0.0 4.0 7.0 3.0" in text
    assert "alice 10.0 75 % 0.5 0.0 0.0 0.0" in text


def test_a_minute_is_not_shown_as_nothing(world: World) -> None:
    world.node("gpu01", gpus=1)
    run(world, "05-03 10:00", "05-03 10:01", gpus=1)
    rolled_from("05-01")
    text = Browser(person("root", ClusterRole.ADMIN)).get(f"/usage?{MAY}&by=user").text
    assert "0.017 GPU hours held" in text
    assert "alice 0.017" in text


def test_a_price_is_told_where_there_is_one(root: Browser, world: World) -> None:
    assert "Price" not in root.get(f"/usage?{MAY}").text
    sku_set_price(name="A100", price=Decimal("2.5"), now=world.now, actor="root")
    text = root.get(f"/usage?{MAY}").text
    assert "35.00 price" in text, "the sum"
    assert "4.0 35.00" in text, "the team's"
    sku_set_price(name="A100", price=Decimal("0.04"), now=world.now, actor="root")
    assert "0.56 price" in root.get(f"/usage?{MAY}").text
    sku_set_price(name="A100", price=Decimal("100.04"), now=world.now, actor="root")
    assert "1,401 price" in root.get(f"/usage?{MAY}").text


def test_a_row_leads_closer_and_the_file_is_the_apis(root: Browser, world: World) -> None:
    page = root.get(f"/usage?{MAY}")
    closer = root.get(f"/usage{page.links['vision']}")
    assert "alice 10.0" in closer.text
    assert "bob 4.0" in closer.text
    address = page.links["Download as CSV"]
    assert "vision,2026-05-03,10.0" in root.get(address).html


def test_a_member_sees_the_own_hours_and_the_teams_sum(bob: User) -> None:
    text = Browser(bob).get(f"/usage?{MAY}&by=user").text
    assert "14 GPU hours held" in text
    assert "bob 4.0" in text
    assert "others of the team 10.0" in text
    assert "alice" not in text


def test_a_lead_sees_each_user_of_the_team_and_a_stranger_nothing(bob: User, world: World) -> None:
    lea = person("lea")
    member_set(vc=world.vc, user=lea, role="lead", now=world.now)
    assert "alice 10.0" in Browser(lea).get(f"/usage?{MAY}&by=user").text
    assert "Nobody you may see held a GPU in this period" in Browser(person("dan")).get(f"/usage?{MAY}").text


def test_what_cannot_be_asked_is_said_beside_its_field(root: Browser, subtests: pytest.Subtests) -> None:
    for asked, words in [
        ("first=2026-05-31&last=2026-05-01", "This lies after the last day."),
        ("first=nonsense", "Enter a valid date."),
        ("first=1990-01-01&last=2026-01-01", "Ask for ten years at most."),
        ("first=2024-01-01&last=2026-01-01&per=day", "Choose weeks or months"),
        ("vc=nowhere", "nowhere is not one of the available choices"),
        ("by=everything", "everything is not one of the available choices"),
    ]:
        with subtests.test(asked=asked):
            page = root.get(f"/usage?{asked}")
            assert page.status == 400
            assert words in page.text


def test_periods_without_an_hour_are_on_the_chart(root: Browser) -> None:
    assert "May 4 0 0 0" in root.get(f"/usage?{MAY}").text
    weeks = root.get("/usage?first=2026-05-01&last=2026-05-20&per=week").text
    assert [day for day in ("Apr 27", "May 4", "May 11", "May 18") if day not in weeks] == []
    assert "May 2026" in root.get(f"/usage?{MAY}&per=month").text


def test_as_many_queries_for_many_users_as_for_one(root: Browser, world: World) -> None:
    path = f"/usage?{MAY}&by=user"
    before = root.queries(path)
    for number in range(3):
        user = person(f"user-{number}")
        member_set(vc=world.vc, user=user, role="member", now=world.now)
        run(world, "05-20 10:00", "05-20 12:00", user=user)
    assert root.queries(path) == before


def test_what_is_kept_of_the_present_day_is_still_filtered_by_who_asks(
    root: Browser, bob: User, settings: LazySettings
) -> None:
    settings.USAGE_KEPT_S = 30
    rolled_from("05-01")
    assert "alice 10.0" in root.get(f"/usage?{MAY}&by=user").text
    assert "alice" not in Browser(bob).get(f"/usage?{MAY}&by=user").text
    assert "14.0" in Api(bob).call("GET", "usage?from=2026-05-01&to=2026-05-31").content.decode()
    asked = "usage?from=2026-05-01&to=2026-05-31&user=alice"
    assert '"rows":[]' in Api(bob).call("GET", asked).content.decode().replace(" ", "")
