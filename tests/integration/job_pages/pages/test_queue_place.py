"""A waiting job is moved in its team's queue from its own page."""

from __future__ import annotations

from typing import Any

import pytest

from portal.accounts.models import User
from portal.jobs.models import Job
from portal.queue.outlook import queue_read
from portal.queue.services.order import Place, job_place
from portal.teams.services.teams import member_set
from tests.support.cluster.world import World
from tests.support.people.cast import cast_of
from tests.support.people.pages import Browser, Page

pytestmark = pytest.mark.django_db


@pytest.fixture
def jobs(world: World) -> list[Job]:
    """Everything is held; three jobs wait."""
    world.submit(gpu=8)
    world.settle()
    made = [world.submit(name=name) for name in ("first", "second", "third")]
    world.cycle()
    return made


def people(world: World) -> dict[str, User]:
    """Everybody, and the owner in the team, whose jobs else are in no order."""
    found = cast_of(world.vc, world.user)
    member_set(vc=world.vc, user=world.user, role="member", now=world.now)
    return found


@pytest.fixture
def lead(world: World) -> Browser:
    return Browser(people(world)["lead"])


def order(world: World) -> list[str]:
    world.cycle()
    names = dict(Job.objects.values_list("pk", "name"))
    return [names[job] for job in queue_read()]


def hidden(page: Page) -> dict[str, str]:
    """What the page's form brings along of the order that it shows."""
    fields = {named.get("name", ""): named for tag, named in page.tags if tag == "input"}
    return {name: fields[name]["value"] for name in ("seen", "shown_ms")}


def chosen(page: Page) -> dict[str, str]:
    """The way that is ticked, and what is typed."""
    ticked = [named["value"] for tag, named in page.tags if named.get("type") == "radio" and "checked" in named]
    picked = [named["value"] for tag, named in page.tags if tag == "option" and "selected" in named]
    (number,) = [named.get("value", "") for _tag, named in page.tags if named.get("name") == "number"]
    return {"to": "".join(ticked), "beside": picked[0] if picked else "", "number": number}


def test_the_jobs_page_leads_to_its_place_which_says_where_it_stands(jobs: list[Job], browser: Browser) -> None:
    address = browser.get(f"/jobs/{jobs[1].pk}").links["Move in the queue"]
    page = browser.get(address)
    assert (address, page.status) == (f"/jobs/{jobs[1].pk}/queue", 200)
    assert "place 2 of the 3 waiting jobs of its owner in vision in the class Test that want the same GPUs" in page.text
    counted = "Place 2 in the queue of vision. It is counted among the jobs that want the same GPUs."
    assert counted in page.text
    assert counted in browser.get(f"/jobs/{jobs[1].pk}").text
    assert "1. alice/first#1 3. alice/third#1" in page.text


WAYS: list[tuple[dict[str, Any], list[str]]] = [
    ({"to": "front"}, ["third", "first", "second"]),
    ({"to": "before", "beside": 1}, ["first", "third", "second"]),
    ({"to": "after", "beside": 0}, ["first", "third", "second"]),
    ({"to": "number", "number": "1"}, ["third", "first", "second"]),
    ({"to": "number", "number": "2"}, ["first", "third", "second"]),
    ({"to": "number", "number": "3", "beside": 0}, ["first", "second", "third"]),
]


@pytest.mark.parametrize(
    ("who", "typed", "expected"), [("lead", *way) for way in WAYS] + [("owner", *WAYS[4]), ("owner", *WAYS[5])]
)
def test_it_goes_where_it_was_put(
    world: World, jobs: list[Job], who: str, typed: dict[str, Any], expected: list[str]
) -> None:
    someone = Browser(people(world)[who])
    address = f"/jobs/{jobs[2].pk}/queue"
    sent = typed | ({"beside": jobs[typed["beside"]].pk} if "beside" in typed else {})
    page = someone.send(address, **sent, **hidden(someone.get(address)))
    after = expected.index("third") + 1
    if after == 3:
        kept = "stays at place 3 of 3, and keeps it now as given by a lead."
        stays = kept if who == "lead" else "stays where it was, at place 3 of 3."
        assert f"alice/third#1 {stays}" in page.text
    else:
        assert f"alice/third#1 went from place 3 to {after} of the 3 jobs" in page.text
    assert order(world) == expected


def test_it_goes_back_to_its_own_place(world: World, jobs: list[Job], lead: Browser) -> None:
    address = f"/jobs/{jobs[2].pk}/queue"
    assert "own" not in lead.get(address).attribute("input", "value"), "it is there"
    lead.send(address, to="front")
    assert order(world)[0] == "third"
    assert Job.objects.get(pk=jobs[2].pk).led
    lead.send(address, to="own")
    assert Job.objects.filter(led=False, queue_ms=None, pk=jobs[2].pk).exists()


WRONG: list[tuple[dict[str, str], str]] = [
    ({"to": "before"}, "Choose the other job."),
    ({"to": "after", "beside": "4711"}, "This job does not wait here any more."),
    ({"to": "number"}, "Type the number of the place."),
    ({"to": "number", "number": "4"}, "less than or equal to 3"),
    ({"to": "number", "number": "x"}, "whole number"),
    ({"number": "2"}, "This field is required."),
]


def test_what_cannot_be_is_said_beside_its_field_and_what_was_chosen_is_kept(
    world: World, jobs: list[Job], browser: Browser
) -> None:
    for typed, complaint in WRONG:
        page = browser.send(f"/jobs/{jobs[2].pk}/queue", **typed)
        assert page.status == 400, typed
        assert complaint in page.text, typed
        assert chosen(page)["to"] == typed.get("to", ""), typed
        assert chosen(page)["number"] == typed.get("number", ""), typed
    assert order(world) == ["first", "second", "third"]


def test_who_chose_in_an_order_that_somebody_changed_is_told_the_change_and_keeps_the_choice(
    world: World, jobs: list[Job], browser: Browser, lead: Browser
) -> None:
    address = f"/jobs/{jobs[1].pk}/queue"
    seen = hidden(lead.get(address))
    browser.send(f"/jobs/{jobs[2].pk}/queue", to="front")
    page = lead.send(address, to="number", number="1", **seen)
    assert page.status == 409
    assert "The queue of vision has changed meanwhile; alice/second#1 was not moved." in page.text
    assert "alice/third#1: Moved to the front of the owner's Test jobs of vision by alice." in page.text
    assert "It stands at place 3 of the 3 waiting jobs of vision" in page.text
    assert chosen(page) == {"to": "number", "beside": "", "number": "1"}
    again = lead.send(address, to="number", number="1", **hidden(page))
    assert "alice/second#1 went from place 3 to 1 of the 3 jobs" in again.text
    assert order(world) == ["second", "third", "first"]


def test_to_an_owner_a_place_that_a_lead_gave_is_the_leads(world: World, jobs: list[Job], browser: Browser) -> None:
    lead = people(world)["lead"]
    job_place(job=Job.objects.get(pk=jobs[2].pk), to=Place(), actor=lead, now=world.now)
    assert "Move in the queue" not in browser.get(f"/jobs/{jobs[2].pk}").links
    page = browser.get(f"/jobs/{jobs[2].pk}/queue")
    assert "A lead has given alice/third#1 its place; ask a lead of vision to change it." in page.text
    assert browser.send(f"/jobs/{jobs[2].pk}/queue", form="/profile", to="front").status == 409
    assert "Move in the queue" in Browser(lead).get(f"/jobs/{jobs[2].pk}").links


def test_a_job_that_does_not_wait_has_no_place(world: World, jobs: list[Job], browser: Browser) -> None:
    running = Job.objects.get(state="running")
    assert "Move in the queue" not in browser.get(f"/jobs/{running.pk}").links
    page = browser.send(f"/jobs/{running.pk}/queue", form="/profile", to="front")
    assert page.status == 409
    assert "does not wait in vision any more" in page.text


def test_the_only_one_has_nowhere_to_go(world: World, browser: Browser) -> None:
    world.submit(gpu=8)
    world.settle()
    job = world.submit(name="alone")
    page = browser.get(f"/jobs/{job.pk}/queue")
    assert "It is the only waiting job of its owner in vision in the class Test that wants such GPUs" in page.text
    assert "Move it" not in page.text
    assert "Move in the queue" not in browser.get(f"/jobs/{job.pk}").links


def test_one_that_a_lead_placed_is_not_among_those_that_its_owner_moves(
    world: World, jobs: list[Job], browser: Browser, lead: Browser
) -> None:
    lead.send(f"/jobs/{jobs[1].pk}/queue", to="front")
    page = browser.get(f"/jobs/{jobs[0].pk}/queue")
    assert "place 1 of the 2 waiting jobs of its owner in vision in the class Test that want the same" in page.text
    lead.send(f"/jobs/{jobs[2].pk}/queue", to="front")
    page = browser.get(f"/jobs/{jobs[0].pk}/queue")
    assert "It is the only waiting job of its owner in vision in the class Test that wants such GPUs" in page.text
    assert "Move in the queue" not in browser.get(f"/jobs/{jobs[0].pk}").links
    assert "Move in the queue" in lead.get(f"/jobs/{jobs[0].pk}").links


def test_jobs_without_gpus_are_moved_among_themselves(world: World, jobs: list[Job]) -> None:
    bare = world.submit(name="bare", gpu=0)
    lead = Browser(people(world)["lead"])
    assert "Move in the queue" not in lead.get(f"/jobs/{bare.pk}").links
    page = lead.get(f"/jobs/{bare.pk}/queue")
    assert "It is the only waiting job without GPUs of vision in the class Test." in page.text
    assert "Move it" not in page.text
    page = lead.send(f"/jobs/{bare.pk}/place", form="/queue", to=f"before:{jobs[0].pk}")
    assert "does not wait beside alice/bare#1" in page.text
    assert order(world)[:3] == ["first", "second", "third"]


def test_more_waiting_jobs_take_no_more_queries(world: World, jobs: list[Job], browser: Browser) -> None:
    address = f"/jobs/{jobs[0].pk}/queue"
    browser.get(address)  # what is kept of the cluster from one page to the next
    before = browser.queries(address)
    for number in range(5):
        world.submit(name=f"more-{number}")
    world.cycle()
    browser.get(address)
    assert browser.queries(address) == before


def test_who_may_move_a_job_in_the_queue(world: World, jobs: list[Job]) -> None:
    everybody, address = people(world), f"/jobs/{jobs[2].pk}/queue"
    may = {"auditor": 403, "member": 403, "other": 404, "owner": 200, "lead": 200, "admin": 200}
    for who, status in may.items():
        someone = Browser(everybody[who])
        assert someone.get(address).status == status, who
        assert someone.send(address, form="/profile", to="front").status == status, who
    assert (order(world)[0] == "third") == (status == 200)
