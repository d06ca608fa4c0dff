"""Submitting a job on the page, without script."""

from __future__ import annotations

import pytest
from pytest_django.fixtures import Settings

from portal.accounts.models import ClusterRole
from portal.common.throttles import Rate, RateLimit
from portal.images.services import image_rule_add
from portal.jobs.models import Job
from portal.secrets.models import SecretKind
from portal.secrets.services import secret_set
from portal.storages.models import Storage
from portal.teams.services.teams import member_set, vc_create
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db


def test_a_valid_file_becomes_a_job_and_its_page_opens(world: World, browser: Browser) -> None:
    page = browser.send("/submit", config=job_file(name="mine"))
    assert "alice/mine#1" in page.text
    assert Job.objects.get().vc == world.vc


def test_line_ends_of_a_form_are_no_part_of_the_commands(world: World, browser: Browser) -> None:
    text = job_file(commands=["if true; then\n  echo yes\nfi"])
    browser.send("/submit", config=text.replace("\n", "\r\n"))
    assert "\r" not in Job.objects.get().config


def test_a_refused_file_is_kept_as_typed_with_every_problem_at_its_place(world: World, browser: Browser) -> None:
    text = job_file(instances=0, role={"colour": "blue"}) + "# my note\n"
    page = browser.send("/submit", config=text)
    assert page.status == 400
    assert not Job.objects.exists()
    assert "# my note" in page.text
    assert "taskRoles.worker.instances" in page.text
    assert "taskRoles.worker.colour" in page.text
    assert "This file cannot be submitted yet." in page.text


def test_an_empty_file_is_asked_for(world: World, browser: Browser) -> None:
    page = browser.send("/submit", config="")
    assert page.status == 400
    assert "This field is required." in page.text


def test_a_file_beyond_the_limit_is_refused_in_words(world: World, browser: Browser) -> None:
    page = browser.send("/submit", config="#" * 1_200_000)
    assert page.status in {400, 413}
    assert "1" in page.text
    assert not Job.objects.exists()


def test_too_many_submissions_are_refused_and_the_file_is_kept(
    world: World, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = RateLimit("submit", Rate(1, 3600))
    monkeypatch.setattr("portal.job_pages.views.submitting.SUBMITS", once)
    browser.send("/submit", config=job_file(name="first"))
    page = browser.send("/submit", config=job_file(name="second"))
    assert page.status == 429
    assert "Too many requests. Try again in" in page.text
    assert "name: second" in page.text


def test_a_job_with_which_too_many_tasks_would_wait_is_refused_and_the_file_is_kept(
    world: World, browser: Browser, settings: Settings
) -> None:
    settings.WAITING_TASKS = 1
    browser.send("/submit", config=job_file(name="first"))
    page = browser.send("/submit", config=job_file(name="second"))
    assert page.status == 429
    assert "No more than 1 tasks of one user may wait at once" in page.text
    assert "name: second" in page.text


def test_a_form_without_the_sessions_sign_is_not_taken(world: World, browser: Browser) -> None:
    answer = browser.client.post("/submit", {"config": job_file()})
    assert answer.status_code == 403
    assert "nothing was changed" in answer.content.decode()
    assert not Job.objects.exists()


def test_each_field_has_its_own_example(world: World, browser: Browser) -> None:
    examples = browser.get("/submit").attribute("input", "placeholder")
    assert examples.count("such as 2h or 1d; none") == 1
    assert examples.count("paper, figure-2") == 1


def test_the_editor_opens_with_an_example_that_would_be_accepted(world: World, browser: Browser) -> None:
    page = browser.get("/submit")
    assert "virtualCluster: vision" in page.text
    example = page.html.split('wrap="off">')[1].split("</textarea>")[0].replace("&quot;", '"')
    assert "alice/my-job#1" in browser.send("/submit", config=example).text


def test_a_job_is_submitted_again_from_its_page(world: World, browser: Browser) -> None:
    job = world.submit(name="again", commands=["echo <one & two>"])
    link = browser.get(f"/jobs/{job.pk}").links["Submit again"]
    assert "echo <one & two>" in browser.get(link).text


def test_somebody_without_a_virtual_cluster_is_told_whom_to_ask(db: None) -> None:
    page = Browser(person("new")).get("/submit")
    assert "You are in no virtual cluster" in page.text
    root = Browser(person("root", ClusterRole.ADMIN)).get("/submit")
    assert root.links["Add yourself to one, or make one"] == "/virtual-clusters"


def test_the_first_file_is_for_a_virtual_cluster_that_owns_gpus(world: World, browser: Browser) -> None:
    poor = vc_create(name="a-poor-one", now=world.now)
    member_set(vc=poor, user=world.user, role="member", now=world.now)
    assert f"virtualCluster: {world.vc.name}" in browser.get("/submit").text


def test_the_form_offers_what_one_was_granted_and_nothing_else(world: World, browser: Browser) -> None:
    other = vc_create(name="secretive", now=world.now)
    for vc, name in ((world.vc, "ours"), (other, "theirs")):
        Storage.objects.create(name=f"{name}-data", root=f"/{name}").vcs.add(vc)
        secret_set(owner=vc, kind=SecretKind.SECRET, name=f"{name}_key", value="tops3cret", now=world.now, actor="root")
        image_rule_add(vc=vc, pattern=f"{name}/*", now=world.now, actor="root")
    secret_set(owner=world.user, kind=SecretKind.SECRET, name="my_key", value="tops3cret", now=world.now, actor="alice")
    world.submit(prerequisites=[{"name": "image", "type": "dockerimage", "uri": "ours/last:1"}])
    page = browser.get("/submit")
    assert "8 A100 unused" in page.text
    shown = page.html
    for offered in ("ours-data", "ours_key", "my_key", "ours/*", 'value="ours/last:1"'):
        assert offered in shown
    for hidden in ("theirs", "secretive", "tops3cret"):
        assert hidden not in shown


def test_each_virtual_cluster_names_the_priority_classes_that_one_may_use_there(world: World, browser: Browser) -> None:
    led = vc_create(name="led", now=world.now)
    member_set(vc=led, user=world.user, role="lead", now=world.now)
    page = browser.get("/submit")
    offered = {tag["value"]: tag["data-classes"] for name, tag in page.tags if "data-classes" in tag}
    assert offered == {"led": "crit prod test oppo", "vision": "prod test oppo"}


def test_the_number_of_queries_grows_with_nothing(world: World, browser: Browser) -> None:
    Storage.objects.create(name="first", root="/first").vcs.add(world.vc)
    browser.get("/submit")  # which quotas there are is kept from one page to the next
    before = browser.queries("/submit")
    for number in range(3):
        vc = vc_create(name=f"more{number}", now=world.now)
        member_set(vc=vc, user=world.user, role="member", now=world.now)
        Storage.objects.create(name=f"data{number}", root=f"/{number}").vcs.add(vc)
        secret_set(owner=vc, kind=SecretKind.SECRET, name="key", value="x", now=world.now, actor="root")
        world.submit(name=f"job{number}")
    browser.get("/submit")
    assert browser.queries("/submit") == before
