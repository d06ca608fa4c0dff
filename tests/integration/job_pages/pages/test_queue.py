"""The queue's page, and what a waiting job's page says of its start."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.forecast.estimates import starts_estimate
from portal.forecast.models import StartEstimate
from portal.jobs.models import Job
from portal.jobs.services.stop import job_stop
from portal.teams.models import VirtualCluster
from portal.teams.services.teams import member_set, vc_create
from tests.support.cluster.world import World
from tests.support.people.cast import Api, cast_of, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db

PROD = {"hivedScheduler": {"jobPriorityClass": "prod"}}


@pytest.fixture
def waiting(world: World) -> list[Job]:
    """Eight GPUs are in use for at most an hour; two jobs wait, the second more urgent."""
    world.submit(gpu=8, extras={**PROD, "berth": {"timeLimit": "1h"}})
    world.settle()
    jobs = [world.submit(name="later"), world.submit(name="sooner", gpu=8, extras=PROD)]
    world.cycle()
    starts_estimate(now=timezone.now(), seconds=60)
    return jobs


def test_the_queue_lists_what_waits_in_the_schedulers_order_with_reason_and_start(
    waiting: list[Job], browser: Browser
) -> None:
    page = browser.get("/queue")
    assert page.text.index("alice/sooner#1") < page.text.index("alice/later#1")
    assert "Team vision holds 8 of its 8 A100, so none is left" in page.text
    assert "Production" in page.text
    assert "2 jobs wait." in page.text
    assert f"/jobs/{waiting[0].pk}" in page.links.values()
    assert len(page.attribute("time", "data-moment")) >= 1, "a likely start"


def test_of_another_teams_job_only_owner_team_and_size_are_shown(waiting: list[Job], world: World) -> None:
    bob = person("bob")
    member_set(vc=vc_create(name="speech", now=timezone.now()), user=bob, role="member", now=timezone.now())
    page = Browser(bob).get("/queue")
    assert "a job of alice" in page.text
    assert "vision" in page.text
    for secret in ("later", "sooner", "holds 8"):
        assert secret not in page.text


def test_the_queue_of_one_team(waiting: list[Job], browser: Browser) -> None:
    vc_create(name="speech", now=timezone.now())
    assert "alice/later#1" in browser.get("/queue?vc=vision").text
    empty = browser.get("/queue?vc=speech")
    assert "Nothing waits in this virtual cluster." in empty.text
    assert "alice/later#1" in browser.get("/queue?vc=nowhere&first=x").text, "what cannot be is no filter"


def test_an_empty_queue_says_what_to_do(world: World, browser: Browser) -> None:
    assert "Nothing waits: whatever fits starts at once." in browser.get("/queue").text


def test_a_refreshed_queue_is_the_part_of_the_page(waiting: list[Job], browser: Browser) -> None:
    whole, part = browser.get("/queue"), browser.get("/queue", HX_Request="true")
    assert 'id="queue"' in part.html
    assert "<html" not in part.html
    assert "alice/sooner#1" in whole.text


def test_a_long_queue_comes_in_pages(waiting: list[Job], browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal.queue.views.queueing.QUEUE_PAGE", 1)
    first = browser.get("/queue")
    assert "alice/sooner#1" in first.text
    assert "alice/later#1" not in first.text
    second = browser.get(first.links["Later places"])
    assert "alice/later#1" in second.text
    assert "alice/sooner#1" in browser.get(second.links["Earlier places"]).text


def test_a_waiting_job_says_when_it_likely_starts(waiting: list[Job], browser: Browser) -> None:
    page = browser.get(f"/jobs/{waiting[1].pk}")
    assert "Likely start:" in page.text
    assert "nine times in ten by" in page.text
    behind = browser.get(f"/jobs/{waiting[0].pk}").text
    assert "No estimate of its start: alice/sooner#1 has no time limit, and fewer than 20 past runs tell" in behind


def test_a_waiting_job_shows_how_good_past_estimates_were(waiting: list[Job], browser: Browser) -> None:
    now = timezone.now()
    moments = {"made_at": now, "p50_at": now, "p90_at": now}
    StartEstimate.objects.bulk_create(
        StartEstimate(job=waiting[0], started_at=now + timedelta(minutes=late), **moments) for late in [0] * 19 + [90]
    )
    starts_estimate(now=now, seconds=60)
    text = browser.get(f"/jobs/{waiting[1].pk}").text
    assert "Of the last 20 estimates, 95 % started by the later time; half were off by at most 0 s." in text


def test_a_longer_queue_takes_no_more_queries(world: World, waiting: list[Job], browser: Browser) -> None:
    api = Api(world.user)
    browser.get("/queue")  # what is kept of the cluster from one page to the next
    before = browser.queries("/queue")
    for number in range(6):
        world.submit(name=f"more-{number}", gpu=8)
    world.cycle()
    browser.get("/queue")
    assert browser.queries("/queue") == before
    assert len(api.get("queue")["results"]) == len(waiting) + 6


def test_an_owner_moves_among_their_own_with_buttons_that_need_no_script(world: World, browser: Browser) -> None:
    world.submit(gpu=8)
    world.settle()
    first, second = world.submit(name="first"), world.submit(name="second")
    world.cycle()
    page = browser.get("/queue?vc=vision")
    assert page.text.index("alice/first#1") < page.text.index("alice/second#1")
    assert f"before:{first.pk}" in page.attribute("button", "value")
    page = browser.send(f"/jobs/{second.pk}/place", form="/queue", to=f"before:{first.pk}", vc="vision")
    assert "alice/second#1 went from place 2 to 1 of the 2 jobs that it is moved among." in page.text
    assert page.text.index("alice/second#1 ", 200) < page.text.rindex("alice/first#1")
    world.cycle()
    page = browser.get("/queue")
    assert page.text.index("alice/second#1") < page.text.index("alice/first#1")
    page = browser.send(f"/jobs/{second.pk}/place", form="/queue", to="before:4711")
    assert "does not wait beside alice/second#1" in page.text


def test_a_member_sees_no_button_at_jobs_of_others(waiting: list[Job], world: World) -> None:
    member = Browser(cast_of(world.vc, world.user)["member"])
    assert "alice/later#1" in member.get("/queue").text
    assert member.get("/queue").attribute("button", "formaction") == []


def test_a_lead_who_chose_a_place_in_another_order_than_there_is_now_is_told_so(world: World) -> None:
    world.submit(gpu=8)
    world.settle()
    first, second, third = (world.submit(name=name) for name in ("first", "second", "third"))
    world.cycle()
    lead = Browser(cast_of(world.vc, world.user)["lead"])
    group = f"{first.pk},{second.pk},{third.pk}"
    assert group in lead.get("/queue").attribute("input", "value")
    moved = {"form": "/queue", "to": f"before:{first.pk}", "seen": group}
    assert "alice/third#1 went from place 3 to 1 of the 3 jobs" in lead.send(f"/jobs/{third.pk}/place", **moved).text
    page = lead.send(f"/jobs/{second.pk}/place", **moved)
    assert "The queue of vision has changed meanwhile; alice/second#1 was not moved." in page.text
    job_stop(job=third, actor=world.user, now=timezone.now())
    gone = {**moved, "seen": f"{third.pk},{first.pk},{second.pk}"}
    assert (
        "alice/second#1 went from place 2 to 1 of the 2 jobs" in lead.send(f"/jobs/{second.pk}/place", **gone).text
    ), "what has gone does not matter"


def test_a_row_that_is_moved_in_place_gets_the_part_of_the_page_with_what_became_of_it(
    world: World, browser: Browser
) -> None:
    world.submit(gpu=8)
    world.settle()
    first, second = world.submit(name="first"), world.submit(name="second")
    world.cycle()
    token = browser.get("/queue").attribute("input", "value")[0]
    sent = {"csrfmiddlewaretoken": token, "to": f"before:{first.pk}", "vc": "vision"}
    answer = browser.client.post(f"/jobs/{second.pk}/place", sent, headers={"HX-Request": "true"})
    part = answer.content.decode()
    assert 'is-success" data-told>alice/second#1 went from place 2 to 1 of the 2 jobs' in part
    assert "<html" not in part
    assert part.index("alice/second#1</a>") < part.index("alice/first#1</a>")
    assert 'data-hx-get="/queue?vc=vision"' in part


def test_gpus_that_are_kept_for_a_job_are_shown_with_since_when(world: World, browser: Browser) -> None:
    VirtualCluster.objects.update(member_class="prod")
    world.submit(gpu=8, name="holder")
    world.settle()
    urgent = world.submit(name="urgent", gpu=2, extras=PROD)
    world.cycle()
    assert "GPUs on gpu01 are kept for it since" in browser.get("/queue").text
    (row,) = Api(world.user).get("queue")["results"]
    assert (row["job"], row["kept_gpus"] >= 2) == (urgent.pk, True)


def test_a_reservation_and_the_likely_start_are_drawn(waiting: list[Job], browser: Browser, world: World) -> None:
    page = browser.get("/queue")
    assert "Next in line" in page.text
    assert "kept" not in page.text
    assert [row["reserved"] for row in Api(world.user).get("queue")["results"]] == [True, False]
    ((x, width),) = [
        (float(named["x"]), float(named["width"])) for tag, named in page.tags if tag == "rect" and "x" in named
    ]
    assert 0 <= x < x + width <= 100


def test_a_place_is_said_to_count_among_jobs_that_want_the_same(world: World, browser: Browser) -> None:
    world.submit(gpu=8)
    world.settle()
    oppo = {"hivedScheduler": {"jobPriorityClass": "oppo"}}
    first, second, idle = world.submit(name="a"), world.submit(name="b"), world.submit(name="c", extras=oppo)
    world.cycle()
    page = browser.get("/queue")
    assert [line["place"] for line in Api(world.user).get("queue")["results"]] == [1, 2, 1]
    assert "Jobs without GPUs and opportunistic jobs are counted by themselves" in page.text
    assert "among the jobs that want the same GPUs" in browser.get(f"/jobs/{second.pk}").text
    assert "among the opportunistic jobs that want the same GPUs" in browser.get(f"/jobs/{idle.pk}").text
    assert f"/jobs/{first.pk}" in page.links.values()


def test_buttons_are_where_they_change_something_and_who_stays_is_told_to_stay(world: World) -> None:
    world.submit(gpu=8)
    world.settle()
    first, second = world.submit(name="first"), world.submit(name="second")
    alone = world.submit(name="alone", extras={"hivedScheduler": {"jobPriorityClass": "oppo"}})
    world.cycle()
    lead = Browser(cast_of(world.vc, world.user)["lead"])
    buttons = [named for tag, named in lead.get("/queue").tags if tag == "button" and "formaction" in named]
    able = [(named["formaction"], named["value"]) for named in buttons if "disabled" not in named]
    ways = [(first, f"after:{second.pk}"), (second, "front"), (second, f"before:{first.pk}")]
    assert able == [(f"/jobs/{job.pk}/place", to) for job, to in ways]
    assert f"/jobs/{alone.pk}/place" not in [named["formaction"] for named in buttons]
    place = {"form": "/queue", "to": "front"}
    page = lead.send(f"/jobs/{first.pk}/place", **place)
    assert "alice/first#1 stays at place 1 of 2, and keeps it now as given by a lead." in page.text
    page = lead.send(f"/jobs/{first.pk}/place", **place)
    assert "alice/first#1 stays where it was, at place 1 of 2." in page.text
    page = lead.send(f"/jobs/{first.pk}/place", form="/queue", to="own")
    assert "alice/first#1 goes back from place 1 of 2 to where it stands by itself." in page.text
    page = lead.send(f"/jobs/{first.pk}/place", form="/queue", to="own")
    assert "alice/first#1 stands at its own place already." in page.text
