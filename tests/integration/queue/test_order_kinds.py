"""Who wants another kind of GPU is in nobody's way: a job is moved, and its places count, among those that want a kind
in common with it."""

from __future__ import annotations

import pytest
from django.utils import timezone

from portal.jobs.models import Job
from portal.jobs.services.submit import job_submit
from portal.queue.outlook import queue_read
from portal.queue.selectors.kinds import kinds_wanted
from portal.queue.services.order import Place, job_movable, job_place, job_place_among
from tests.integration.queue.test_order import Team, place
from tests.support.cluster.world import job_file
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db


class TwoKinds(Team):
    """A GPU of each of two kinds, both of them held."""

    def __init__(self) -> None:
        super().__init__()
        self.node("gpu02", gpus=1, model="NVIDIA H100")
        self.submit(name="second-holder")
        self.settle()
        assert Job.objects.filter(state="running").count() == 2

    def waits(self, name: str, sku: str = "") -> Job:
        """A job of Bob's for one GPU of the kind; without a name it takes either."""
        extras = {"hivedScheduler": {"taskRoles": {"worker": {"skuType": sku}}}} if sku else {}
        job = job_submit(user=self.bob, text=job_file(name=name, extras=extras), now=timezone.now())
        return Job.objects.select_related("user", "vc").get(pk=job.pk)


@pytest.fixture
def world() -> TwoKinds:
    return TwoKinds()


def moved(world: TwoKinds, job: Job, to: Place) -> tuple[int, int | None, int, bool]:
    """By the lead: the place before and after, among how many, and whether anything was changed."""
    done = job_place(job=job, to=to, actor=world.lea, now=timezone.now())
    return done.before, done.after, done.count, done.changed


def test_a_job_is_not_moved_past_one_that_wants_another_kind(world: TwoKinds) -> None:
    a100, h100 = world.waits("a100", "A100"), world.waits("h100", "H100")
    world.order()
    assert kinds_wanted(jobs=[a100, h100]) == {a100.pk: {"A100"}, h100.pk: {"H100"}}
    assert queue_read() == {a100.pk: 1, h100.pk: 1}
    status, said = place(world.leads, h100, before=a100.pk)
    assert (status, "that want the same kind of GPU" in said) == (409, True)
    assert not job_movable(job=h100, lead=True)
    assert (job_place_among(job=h100, actor=world.lea).ids, Job.objects.filter(led=True).count()) == ([h100.pk], 0)
    page = Browser(world.lea).get("/queue")
    assert [one for one in page.attribute("button", "value") if one.partition(":")[2] or one == "front"] == []


def test_places_count_among_those_of_a_kind_in_common_and_a_move_that_passes_none_says_so(world: TwoKinds) -> None:
    jobs = [world.waits("first", "A100"), world.waits("second", "H100"), world.waits("third", "H100")]
    world.order()
    assert moved(world, jobs[2], Place(after=jobs[1].pk)) == (2, 2, 2, True), "led from now on"
    assert moved(world, jobs[2], Place(after=jobs[1].pk)) == (2, 2, 2, False)
    assert moved(world, jobs[2], Place()) == (2, 1, 2, True)
    assert [name for name in world.order() if name != "first"] == ["third", "second"]
    assert not job_place(job=jobs[0], to=Place(), actor=world.bob, now=timezone.now()).changed, "its owner's only one"
    page = Browser(world.bob).get(f"/jobs/{jobs[0].pk}/queue")
    assert "It is the only waiting job of its owner in vision in the class Test that wants such GPUs" in page.text


def test_who_takes_either_kind_is_in_the_way_of_both_and_keeps_its_place_before_neither(world: TwoKinds) -> None:
    jobs = [world.waits("a100", "A100"), world.waits("either"), world.waits("h100", "H100")]
    assert world.order() == ["a100", "either", "h100"]
    assert [queue_read()[job.pk] for job in jobs] == [1, 2, 2]
    assert moved(world, jobs[1], Place(after=jobs[2].pk)) == (2, 3, 3, True)
    assert world.order() == ["a100", "h100", "either"], "what stood before it still does"
    assert moved(world, jobs[2], Place(after=jobs[1].pk)) == (1, 2, 2, True)
    assert world.order() == ["a100", "either", "h100"]


def test_an_owners_job_takes_the_place_of_the_first_that_it_passes_and_of_no_other(world: TwoKinds) -> None:
    jobs = [world.waits("a100", "A100"), world.waits("either"), world.waits("h100", "H100")]
    world.order()
    done = job_place(job=jobs[2], to=Place(), actor=world.bob, now=timezone.now())
    assert (done.before, done.after, done.count) == (2, 1, 2)
    assert world.order() == ["a100", "h100", "either"]
    jobs[0].refresh_from_db()
    assert jobs[0].queue_ms is None


def test_an_opportunistic_job_may_have_any_kind(world: TwoKinds) -> None:
    extras = {"hivedScheduler": {"jobPriorityClass": "oppo"}}
    world.vc.quota.filter(cell_type__name="H100").delete()
    owned, loaned = world.waits("owned"), world.submit(name="loaned", extras=extras)
    found = kinds_wanted(jobs=[owned, loaned])
    assert found == {owned.pk: {"A100"}, loaned.pk: {"A100", "H100"}}
