"""A form that is sent when its session has ended: it is there again after logging in."""

from __future__ import annotations

import html
import re
from typing import Any, cast

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse

from portal.accounts.models import ClusterRole
from portal.jobs.models import Job
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import HOST, person
from tests.support.people.pages import Browser, Page

pytestmark = pytest.mark.django_db
FILE = "\n" + job_file(name="typed", commands=["echo <b> & 'c'"])
OURS = {"Origin": f"http://{HOST}"}


def shown(page: Page, name: str) -> str:
    """What the field of that name holds."""
    return next(tag["value"] for kind, tag in page.tags if kind == "input" and tag.get("name") == name)


def post(browser: Browser, path: str, page: Page, headers: dict[str, str] | None = None, **fields: Any) -> Page:
    """Sends what stands in the page's hidden fields, and ``fields``."""
    kept = dict(re.findall(r'<textarea name="([^"]+)" hidden>\n(.*?)</textarea>', page.html, re.DOTALL))
    inputs = {
        tag["name"]: tag.get("value", "") for kind, tag in page.tags if kind == "input" and tag.get("type") == "hidden"
    }
    sent = {**inputs, **{name: html.unescape(value) for name, value in kept.items()}, **fields}
    return Page(cast(HttpResponse, browser.client.post(path, sent, follow=True, headers=headers)))


@pytest.fixture
def ended(world: World) -> tuple[Browser, Page]:
    """A browser whose session ended while the submit page was open, and what sending that page answers."""
    world.node("gpu01")
    browser = Browser(world.user)
    page = browser.get("/submit")
    browser.client.session.flush()
    return browser, post(browser, "/submit", page, config=FILE)


def test_the_log_in_page_says_so_and_the_form_goes_on_after_it(ended: tuple[Browser, Page]) -> None:
    browser, page = ended
    assert page.status == 401
    assert "Your session has ended." in page.text
    wrong = post(browser, "/login", page, username="alice", password="wrong")
    assert wrong.status in {400, 401, 403}
    again = post(browser, "/login", wrong, username="alice", password="correct horse")
    assert "What you had typed is still here." in again.text
    assert not Job.objects.exists()
    look = post(browser, "/submit", again, look="on")
    assert look.status == 200
    assert "echo <b> & 'c'" in html.unescape(look.html)
    assert not Job.objects.exists()
    assert "alice/typed#1" in post(browser, "/submit", again).text
    assert Job.objects.get().config == FILE


def test_passwords_do_not_wait_there(world: World) -> None:
    browser = Browser(world.user)
    page = browser.get("/profile")
    browser.client.session.flush()
    came = {"Referer": f"http://{HOST}/profile"}
    answer = post(browser, "/profile/password", page, came, old="correct horse", new="another good one")
    assert (answer.status, "passwords and other secrets that were typed are not kept" in answer.text) == (401, True)
    assert "correct horse" not in answer.html
    assert "kept-" not in answer.html
    assert shown(answer, "next") == "/profile"


def test_somebody_who_was_never_there_finds_the_plain_page(db: None) -> None:
    page = Browser().get("/submit")
    assert "Your session has ended." not in page.text
    assert Browser().client.post("/submit", {"config": FILE}).status_code == 403


def test_a_form_with_a_secret_does_not_wait_there_at_all(world: World) -> None:
    browser = Browser(world.user)
    page = browser.get("/profile/secrets")
    browser.client.session.flush()
    answer = post(browser, "/profile/secrets", page, name="key", value="very-secret")
    assert "very-secret" not in answer.html
    assert "kept-" not in answer.html


def test_a_file_does_not_wait_and_that_it_must_be_chosen_again_is_said(world: World) -> None:
    browser = Browser(person("root", ClusterRole.ADMIN))
    page = browser.get("/users/import")
    browser.client.session.flush()
    answer = post(browser, "/users/import", page, table="", file=SimpleUploadedFile("u.csv", b"username\ndora\n"))
    assert (answer.status, "Your session has ended" in answer.text) == (401, True)
    assert "choose the file again" in answer.text
    assert ("dora" in answer.html, "kept-" in answer.html) == (False, False)
    assert shown(answer, "next") == "/users/import"


def test_the_log_in_page_stands_below_no_other(world: World) -> None:
    root = Browser(person("root", ClusterRole.ADMIN))
    page = root.get("/new-virtual-cluster")
    assert 'class="trail"' in page.html
    root.client.session.flush()
    answer = post(root, "/new-virtual-cluster", page, name="audio", host_network="False")
    assert (answer.status, 'class="trail"' in answer.html) == (401, False)


@pytest.fixture
def stale(world: World) -> tuple[Browser, Page]:
    """A browser in which somebody logged in again while the submit page was open, and that page."""
    world.node("gpu01")
    browser = Browser(world.user)
    page = browser.get("/submit")
    browser.client.session.flush()
    browser.send("/login", username="alice", password="correct horse")
    assert shown(page, "csrfmiddlewaretoken")
    return browser, page


def test_after_a_log_in_beside_the_page_its_form_is_offered_again_and_sent_by_its_owner_only(
    stale: tuple[Browser, Page],
) -> None:
    browser, page = stale
    answer = post(browser, "/submit", page, headers=OURS, config=FILE)
    assert (answer.status, answer.attribute("form", "action").count("/submit")) == (403, 1)
    assert "no-store" in answer.headers["Cache-Control"]
    assert "logged in again since that page was loaded, now as alice" in answer.text
    assert "echo <b> & 'c'" in answer.text
    assert not Job.objects.exists()
    assert "alice/typed#1" in post(browser, "/submit", answer).text
    assert Job.objects.get().config == FILE


@pytest.mark.parametrize(
    ("headers", "back"),
    [
        ({}, "/"),
        ({"Referer": f"http://{HOST}/submit?sample=hello"}, "/submit?sample=hello"),
        ({"Referer": f"http://{HOST}//example.org/x"}, "/example.org/x"),
    ],
)
def test_who_discards_it_is_back_on_the_page_with_the_form(
    stale: tuple[Browser, Page], headers: dict[str, str], back: str
) -> None:
    browser, page = stale
    answer = post(browser, "/submit", page, headers={**OURS, **headers}, config=FILE)
    assert answer.links["Discard it"] == back


@pytest.mark.parametrize(
    "headers", [{}, {"Origin": "https://example.org"}, {"Origin": "null"}, {"Referer": "https://example.org/submit"}]
)
def test_what_none_of_our_pages_sent_is_not_offered(stale: tuple[Browser, Page], headers: dict[str, str]) -> None:
    browser, page = stale
    answer = post(browser, "/submit", page, headers=headers, config=FILE)
    assert (answer.status, "echo" in answer.html) == (403, False)
    assert "older than your session" in answer.text


def test_what_holds_a_secret_or_a_file_is_not_offered_nor_anything_to_who_is_not_logged_in(
    stale: tuple[Browser, Page],
) -> None:
    browser, page = stale
    answer = post(browser, "/profile/secrets", page, headers=OURS, name="key", value="very-secret")
    assert (answer.status, "very-secret" in answer.html) == (403, False)
    file = SimpleUploadedFile("u.csv", b"username\ndora\n")
    answer = post(browser, "/users/import", page, headers=OURS, others="on", file=file)
    assert (answer.status, "choose the file once more" in answer.text) == (403, True)
    browser.client.session.flush()
    stranger = Browser()
    stranger.get("/login")
    assert "echo" not in post(stranger, "/submit", page, headers=OURS, config=FILE).html


def test_a_form_that_waits_on_an_older_log_in_page_is_offered_without_the_password(
    ended: tuple[Browser, Page],
) -> None:
    browser, waiting = ended
    browser.send("/login", username="alice", password="correct horse")
    answer = post(browser, "/login", waiting, headers=OURS, username="alice", password="correct horse")
    assert (answer.status, "correct horse" in answer.html) == (403, False)
    assert "alice/typed#1" in post(browser, "/submit", answer).text
