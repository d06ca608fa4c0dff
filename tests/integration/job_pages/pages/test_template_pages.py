"""The pages of templates and of the gallery, without script."""

from __future__ import annotations

import html
from typing import Any

import pytest

from portal.accounts.models import ClusterRole
from portal.job_file.model import JobSpec
from portal.jobs.models import Job
from portal.teams.models import VirtualCluster
from portal.teams.services.teams import member_set
from portal.templates.models import JobTemplate
from portal.templates.samples import FILES, samples
from portal.templates.services import template_create
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import cast_of, person
from tests.support.people.pages import Browser, Page

pytestmark = pytest.mark.django_db
FILE = job_file(name="kept", commands=["echo <% $parameters.word %>"], parameters={"word": "hello"})


def keep(world: World, **about: Any) -> JobTemplate:
    about = {"home": world.user, "name": "kept", "description": "for tests", "file": FILE, **about}
    return template_create(**about, now=world.now, actor="alice")


def file_of(page: Page) -> str:
    return html.unescape(page.html.split('wrap="off">')[1].split("</textarea>")[0])


def test_a_template_is_made_from_what_stands_on_the_submit_page_and_used_from_the_list(
    world: World, browser: Browser
) -> None:
    page = browser.send("/templates/new", form="/submit", config=FILE, fill="on")
    assert (page.status, file_of(page)) == (200, FILE)
    assert not JobTemplate.objects.exists()
    page = browser.send("/templates/new", name="mine", description="d", home="private", config=file_of(page))
    assert "The template is saved." in page.text
    assert file_of(browser.get(page.links["Use"])) == FILE


def test_a_template_is_made_from_a_job_without_its_masked_secrets(world: World, browser: Browser) -> None:
    job = world.submit(secrets={"key": "tops3cret"}, parameters={"a": 1})
    link = browser.get(f"/jobs/{job.pk}").links["Save as template"]
    text = file_of(browser.get(link))
    assert "secrets" not in text
    assert "parameters" in text
    page = browser.send("/templates/new", name="from-job", description="", home="private", config=text)
    assert "The template is saved." in page.text


def test_secrets_that_are_typed_are_refused_beside_the_file_and_what_was_typed_stays(
    world: World, browser: Browser
) -> None:
    text = job_file(secrets={"key": "tops3cret"})
    page = browser.send("/templates/new", name="mine", description="my words", home="private", config=text)
    assert page.status == 400
    assert "secrets a template holds no secrets" in page.text
    assert "my words" in page.html
    assert not JobTemplate.objects.exists()


BAD: dict[str, tuple[dict[str, str], str]] = {
    "no name": ({"name": ""}, "This field is required."),
    "a slash in the name": ({"name": "a/b"}, "name"),
    "no job file": ({"config": "- a list"}, "must be a mapping"),
    "a home that is not one's own": ({"home": "vc:vision"}, "Select a valid choice"),
    "everybody, by a user": ({"home": "public"}, "Select a valid choice"),
    "a name that is taken": ({"name": "kept"}, "There is a template of this name already."),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_is_said_at_its_place(world: World, browser: Browser, case: str) -> None:
    keep(world)
    wrong, words = BAD[case]
    fields = {"name": "new", "description": "my words", "home": "private", "config": FILE, **wrong}
    page = browser.send("/templates/new", **fields)
    assert page.status == 400
    assert words in page.text
    assert "my words" in page.html
    assert JobTemplate.objects.count() == 1


def test_a_template_is_changed_and_removed(world: World, browser: Browser) -> None:
    kept = keep(world)
    page = browser.get(f"/templates/{kept.pk}")
    seen = next(tag["value"] for _, tag in page.tags if tag.get("name") == "seen")
    fields = {"name": "other", "description": "d", "config": FILE, "seen": seen}
    assert "The template is changed." in browser.send(f"/templates/{kept.pk}", **fields).text
    late = browser.send(f"/templates/{kept.pk}", **{**fields, "name": "late"})
    assert late.status == 400
    assert "Somebody changed it meanwhile" in late.text
    renewed = next(tag["value"] for _, tag in late.tags if tag.get("name") == "seen")
    again = browser.send(f"/templates/{kept.pk}", **{**fields, "name": "late", "seen": renewed})
    assert "The template is changed." in again.text
    assert JobTemplate.objects.get().name == "late"
    assert "Remove the template late?" in browser.get(f"/templates/{kept.pk}/remove").text
    assert "The template is removed." in browser.send(f"/templates/{kept.pk}/remove").text
    assert not JobTemplate.objects.exists()


def test_who_sees_and_who_changes_what(world: World) -> None:
    cast = {name: Browser(one) for name, one in cast_of(world.vc, world.user).items()}
    team, public = keep(world, home=world.vc, name="ours"), keep(world, home=None, name="all")
    private = keep(world, name="secret-plan")
    pages = {name: one.get("/templates") for name, one in cast.items()}
    assert {name for name, page in pages.items() if "secret-plan" in page.text} == {"owner"}
    assert {name for name, page in pages.items() if "Edit ours" in page.html} == {"lead", "group_lead", "admin"}
    assert {name for name, page in pages.items() if "Read ours" in page.html} == {"member", "group_member", "auditor"}
    assert {name for name, page in pages.items() if "Edit all" in page.html} == {"admin"}
    for template, statuses in ((team, (200, 404)), (public, (200, 200)), (private, (404, 404))):
        got = [cast[name].get(f"/templates/{template.pk}").status for name in ("member", "other")]
        assert tuple(got) == statuses
    assert cast["member"].get(f"/templates/{team.pk}/remove").status == 403
    assert cast["admin"].get(f"/templates/{private.pk}/remove").status == 404
    assert cast["other"].get(f"/submit?template={team.pk}").status == 404
    assert cast["member"].send(f"/templates/{team.pk}", form="/templates/new", name="mine").status == 403


def test_a_lead_makes_one_for_the_team_and_an_administrator_for_everybody(world: World) -> None:
    root = person("root", ClusterRole.ADMIN)
    member_set(vc=world.vc, user=root, role="lead", now=world.now)
    for home in ("vc:vision", "public"):
        Browser(root).send("/templates/new", name="theirs", description="", home=home, config=FILE)
    assert {one.visibility for one in JobTemplate.objects.all()} == {"vc", "public"}


def test_the_list_takes_as_many_queries_for_many(world: World, browser: Browser) -> None:
    keep(world)
    before = browser.queries("/templates")
    for number in range(3):
        keep(world, home=world.vc, name=f"more{number}")
    assert browser.queries("/templates") == before
    assert "more2" not in browser.get("/templates?text=kept").text


def test_each_sample_opens_in_the_editor_as_a_file_that_is_accepted(world: World, browser: Browser) -> None:
    VirtualCluster.objects.update(host_network=True)
    for one in samples():
        text = file_of(browser.get(f"/submit?sample={one.name}"))
        assert "virtualCluster: vision" in text
        page = browser.send("/submit", config=text)
        assert page.status == 200, page.text
        assert JobSpec.from_json(Job.objects.get(name=one.name).spec).berth.time_limit_s


def test_every_sample_is_in_the_gallery(world: World, browser: Browser) -> None:
    assert {one.name for one in samples()} == {file.stem for file in FILES.glob("*.yaml")}
    links = browser.get("/templates").html
    assert all(f"?sample={one.name}" in links for one in samples())
    assert "jupyter" not in browser.get("/templates?text=ResNet").text
    assert browser.get("/submit?sample=none").status == 404
