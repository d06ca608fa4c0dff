"""What people see of a preemption, on the page and by the API, and what not of another team's job."""

from __future__ import annotations

from typing import Any

import pytest

from portal.accounts.models import ClusterRole, User
from portal.jobs.models import Job, Preemption
from tests.integration.scheduler.plans import PROD, carry_out, obey, preempt, read, running, start, submitted
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db

Teams = dict[str, User]
PLACES = {0: "gpu01/0", 1: "gpu02/0"}


@pytest.fixture
def across(world: World, teams: Teams) -> tuple[Job, Job]:
    """Carol's job ran on loan; Bob's takes the GPUs back."""
    low = running(world, teams["carol"], PLACES, borrowed=True, name="low")
    high = submitted(world, teams["bob"], PLACES, name="high", extras=PROD)
    loaded = read()
    assert carry_out(loaded, preemptions=[preempt(loaded, high, PLACES, {low: (0, 1)}, grace_s=90)]).preempted == 1
    return low, high


def other(api: Api, job: Job) -> dict[str, Any]:
    (found,) = api.get(f"jobs/{job.pk}/preemptions")["results"]
    return dict(found)


def test_both_sides_are_told_when_how_much_and_by_whom(world: World, teams: Teams, across: tuple[Job, Job]) -> None:
    low, high = across
    row = Preemption.objects.get()
    lost, got = other(Api(teams["carol"]), low), other(Api(teams["bob"]), high)
    for told, is_lost in ((lost, True), (got, False)):
        assert told["lost"] is is_lost
        assert (told["tasks"], told["gpus"], told["attempt"]) == (2, 2, 1)
        assert told["deadline"] == row.deadline.isoformat().replace("+00:00", "Z")
    assert lost["other"] == {"user": "bob", "vc": "vision", "gpus": 2, "job": None, "label": None}
    assert got["other"] == {"user": "carol", "vc": "language", "gpus": 2, "job": None, "label": None}


def test_an_administrator_learns_which_jobs_they_are(across: tuple[Job, Job]) -> None:
    low, high = across
    api = Api(person("root", ClusterRole.ADMIN))
    assert (other(api, low)["other"]["job"], other(api, low)["other"]["label"]) == (high.pk, "bob/high#1")
    assert other(api, high)["other"]["label"] == "carol/low#1"


def test_who_may_not_see_the_job_learns_nothing_of_its_preemptions(teams: Teams, across: tuple[Job, Job]) -> None:
    low, high = across
    assert Api(teams["bob"]).call("GET", f"jobs/{low.pk}/preemptions").status_code == 404
    assert Api(teams["carol"]).call("GET", f"jobs/{high.pk}/preemptions").status_code == 404


def test_the_victims_page_says_who_why_and_until_when_and_then_that_it_waits_again(
    world: World, teams: Teams, across: tuple[Job, Job]
) -> None:
    low, _ = across
    why = "Preempted by a job of bob in vision (2 GPUs), which is owed the GPUs that it had on loan."
    page = Browser(teams["carol"]).get(f"/jobs/{low.pk}")
    assert why in page.text
    assert "to save and to end, and then waits again, with the time of its submission" in page.text
    assert "high#1" not in page.text
    assert "Preempted (its tasks are still ending)" in page.text
    obey(world)
    page = Browser(teams["carol"]).get(f"/jobs/{low.pk}")
    assert "Waiting" in page.text
    assert why in page.text
    assert "It waits with the time of its submission." in page.text


def test_the_preemptors_page_says_whom_it_waits_for(teams: Teams, across: tuple[Job, Job]) -> None:
    _, high = across
    deadline = Preemption.objects.get().deadline
    page = Browser(teams["bob"]).get(f"/jobs/{high.pk}")
    words = "2 GPUs of a job of carol in language (2 GPUs) are taken back for it by"
    assert f"{words} {deadline:%H:%M:%S} UTC." in page.text
    assert "UTC.." not in page.text
    assert "low#1" not in page.text
    assert "No estimate" not in page.text, "the reason itself says when it starts"


def test_a_page_of_a_job_that_loses_single_tasks_says_so(world: World, teams: Teams) -> None:
    low = running(world, teams["alice"], PLACES, name="low", gang=False)
    high = submitted(world, teams["bob"], {0: "gpu01/0"}, name="high", extras=PROD)
    loaded = read()
    carry_out(loaded, preemptions=[preempt(loaded, high, {0: "gpu01/0"}, {low: (0,)})])
    page = Browser(teams["alice"]).get(f"/jobs/{low.pk}")
    assert "1 task preempted for bob/high#1" in page.text
    assert page.links["bob/high#1"] == f"/jobs/{high.pk}"
    obey(world)
    assert "1 task preempted" not in Browser(teams["alice"]).get(f"/jobs/{low.pk}").text
    loaded = read()
    assert carry_out(loaded, starts=[start(loaded, high, {0: "gpu01/0"})]).started == 1
