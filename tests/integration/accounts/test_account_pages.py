"""Signing in and out, tokens and the password, on the pages."""

from __future__ import annotations

import re

import pytest
from django.conf import settings

from portal.accounts.models import Token, User
from portal.accounts.services import user_create
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db
PASSWORD = "correct-horse-battery"


@pytest.fixture
def alice() -> User:
    return user_create(username="alice", password=PASSWORD)


def test_the_right_password_leads_to_the_page_that_was_asked_for(alice: User) -> None:
    browser = Browser()
    page = browser.send("/login", username="alice", password=PASSWORD, next="/cluster")
    assert page.status == 200
    assert "Cluster" in page.text
    assert "alice" in page.text


def test_a_wrong_password_is_said_without_saying_what_was_wrong(alice: User) -> None:
    for name in ("alice", "nobody"):
        page = Browser().send("/login", username=name, password="wrong")
        assert page.status == 401
        assert "User name or password is wrong." in page.text
        assert name in page.attribute("input", "value")


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "nowhere", "a b"])
def test_signing_in_never_leads_to_another_site_or_to_what_is_no_path(alice: User, target: str) -> None:
    browser = Browser()
    browser.send("/login", username="alice", password=PASSWORD, next=target)
    page = browser.get(f"/login?next={target}")
    assert (page.status, page.headers["Location"]) == (302, "/")


def test_a_stranger_who_chooses_a_language_comes_back_to_a_page_of_the_portal() -> None:
    assert Browser().send("/language", form="/login", language="en", next="nowhere").status == 200


def test_too_many_tries_are_refused_for_a_while(alice: User) -> None:
    browser = Browser()
    # Ten in a minute; a minute may be over in the middle, so that ten more are heard.
    answers = [browser.send("/login", username="alice", password="wrong").status for _ in range(21)]
    assert answers[0] == 401
    assert 429 in answers


def test_signing_out_ends_the_session(alice: User) -> None:
    browser = Browser(alice)
    browser.send("/logout", form="/profile")
    assert browser.get("/profile").status == 302


def test_a_link_cannot_sign_somebody_out(alice: User) -> None:
    browser = Browser(alice)
    assert browser.get("/logout").status == 405
    assert browser.get("/profile").status == 200


def test_a_new_token_is_shown_once_and_works(alice: User) -> None:
    browser = Browser(alice)
    page = browser.send("/profile/tokens", form="/profile", name="laptop", scope="read", days="30")
    secret = re.search(r"berth_[\w-]{40,}", page.text)
    assert secret is not None
    api = Api()
    api.headers["Authorization"] = f"Bearer {secret[0]}"
    assert api.get("me")["username"] == "alice"
    again = browser.get("/profile")
    assert secret[0] not in again.html
    assert "laptop" in again.text


def test_a_revoked_token_is_gone(alice: User) -> None:
    browser = Browser(alice)
    browser.send("/profile/tokens", form="/profile", name="old", scope="read", days="30")
    token = Token.objects.get()
    page = browser.send(f"/profile/tokens/{token.pk}/revoke", form="/profile")
    assert "The token is revoked." in page.text
    assert "You have no tokens." in page.text


def test_another_users_token_cannot_be_revoked(alice: User) -> None:
    Browser(alice).send("/profile/tokens", form="/profile", name="mine", scope="read", days="30")
    token = Token.objects.get()
    assert Browser(person("bob")).send(f"/profile/tokens/{token.pk}/revoke", form="/profile").status == 404
    token.refresh_from_db()
    assert token.revoked_at is None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (PASSWORD, "another-good-one", "The password is changed."),
        ("wrong", "another-good-one", "This is not the current password."),
        (PASSWORD, "12345", "too short"),
    ],
)
def test_a_password_is_changed_only_with_the_old_one_and_a_good_new_one(
    alice: User, old: str, new: str, words: str
) -> None:
    browser = Browser(alice)
    page = browser.send("/profile/password", form="/profile", old=old, new=new)
    assert words in page.text
    alice.refresh_from_db()
    assert alice.check_password(new) == (words.startswith("The password"))
    assert browser.get("/profile").status == 200


def test_both_passwords_are_judged_at_once(alice: User) -> None:
    page = Browser(alice).send("/profile/password", form="/profile", old="wrong", new="alice")
    assert page.status == 400
    assert "This is not the current password." in page.text
    assert "too similar to the username" in page.text
    assert "too short" in page.text
    page = Browser(alice).send("/profile/password", form="/profile", new="alice")
    assert ("This field is required." in page.text, "too short" in page.text) == (True, True)


def test_an_open_browser_is_no_place_to_guess_at_the_password(alice: User) -> None:
    browser = Browser(alice)
    guesses = {"form": "/profile", "old": "wrong", "new": "another-good-one"}
    for _ in range(settings.LOGIN_RATE[0]):
        assert "This is not the current password." in browser.send("/profile/password", **guesses).text
    page = browser.send("/profile/password", **{**guesses, "old": PASSWORD})
    assert (page.status, "Too many requests. Try again in" in page.text) == (400, True)


def test_changing_the_password_signs_other_browsers_out(alice: User) -> None:
    here, there = Browser(alice), Browser(alice)
    here.send("/profile/password", form="/profile", old=PASSWORD, new="another-good-one")
    assert there.get("/profile").status == 302


def test_pages_forbid_inline_script_and_framing(alice: User) -> None:
    page = Browser(alice).get("/profile")
    policy = page.headers["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert all(source for source in page.attribute("script", "src"))
    assert len(page.attribute("script", "src")) == sum(tag == "script" for tag, _ in page.tags)
    assert not [name for _, named in page.tags for name in named if name.startswith("on")]
