"""A form that is sent when its session has ended: it is there again after logging in."""

from __future__ import annotations

import html
import re
from typing import cast

import pytest
from django.http import HttpResponse

from portal.jobs.models import Job
from tests.support.pages import Browser, Page
from tests.support.world import World, job_file

pytestmark = pytest.mark.django_db
FILE = "\n" + job_file(name="typed", commands=["echo <b> & 'c'"])


def post(browser: Browser, path: str, page: Page, **fields: str) -> Page:
    """Sends what stands in the page's hidden fields, and ``fields``."""
    kept = dict(re.findall(r'<textarea name="([^"]+)" hidden>\n(.*?)</textarea>', page.html, re.DOTALL))
    inputs = {
        tag["name"]: tag.get("value", "") for kind, tag in page.tags if kind == "input" and tag.get("type") == "hidden"
    }
    sent = {**inputs, **{name: html.unescape(value) for name, value in kept.items()}, **fields}
    return Page(cast(HttpResponse, browser.client.post(path, sent, follow=True)))


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
    answer = post(browser, "/profile/password", page, old="correct horse", new="another good one")
    assert "Your session has ended." not in answer.text
    assert "correct horse" not in answer.html


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
