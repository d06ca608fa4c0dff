"""User name and password: what is told, and how often one may guess."""

from __future__ import annotations

import contextlib
import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from portal.accounts.models import ClusterRole, User
from portal.accounts.services import NameTaken, WrongPassword, sign_in, user_create
from portal.common.errors import RateLimited
from tests.support.people.cast import Api
from tests.support.run.waiting import early_in_a_minute
from tests.support.services.redis_server import RedisServer

pytestmark = pytest.mark.django_db
PASSWORD = "correct-horse-battery"


@pytest.fixture
def alice() -> User:
    return user_create(username="alice", password=PASSWORD)


def attempt(username: str = "alice", password: str = PASSWORD, **more: Any) -> Any:
    return Api().call("POST", "login", {"username": username, "password": password, **more})


def test_the_right_password_gives_a_token_that_works_and_expires(alice: User) -> None:
    answer = json.loads(attempt(name="cli", scope="read").content)
    api = Api()
    api.headers["Authorization"] = f"Bearer {answer['token']}"
    assert api.get("me") == {
        "id": alice.pk, "username": "alice", "email": "", "role": "user", "scope": "read", "language": "",
    }  # fmt: skip
    assert answer["expires_at"] > (timezone.now() + timedelta(days=29)).isoformat()


def test_a_wrong_name_and_a_wrong_password_are_told_apart_by_nobody(alice: User) -> None:
    wrong_password, wrong_name = attempt(password="wrong"), attempt(username="nobody")
    assert wrong_password.status_code == wrong_name.status_code == 401
    assert wrong_password.content == wrong_name.content
    assert PASSWORD.encode() not in wrong_name.content


def test_a_disabled_account_cannot_sign_in(alice: User) -> None:
    User.objects.update(is_active=False)
    assert attempt().status_code == 401


def test_guessing_is_slowed_down_and_the_answer_says_for_how_long(alice: User) -> None:
    early_in_a_minute()
    answers = [attempt(password="wrong") for _ in range(11)]
    assert [answer.status_code for answer in answers] == [401] * 10 + [429]
    assert 1 <= int(answers[-1].headers["Retry-After"]) <= 3600
    assert attempt().status_code == 429, "also with the right password: else guessing would go on"


def test_guesses_count_for_the_name_whatever_address_they_come_from(alice: User) -> None:
    now = timezone.now()
    for number in range(10):
        with pytest.raises(Exception, match="wrong"):
            sign_in(username="Alice", password="wrong", address=f"10.0.0.{number}", now=now)
    with pytest.raises(RateLimited):
        sign_in(username="alice", password=PASSWORD, address="10.0.1.1", now=now)
    assert sign_in(username="alice", password=PASSWORD, address="10.0.1.1", now=now + timedelta(hours=1)) == alice


def test_guesses_at_many_names_are_slow_also_from_the_many_addresses_of_one_machine(alice: User) -> None:
    now, stopped = timezone.now(), 0
    for number in range(12):
        with pytest.raises((WrongPassword, RateLimited)) as tried:
            sign_in(username=f"user{number}", password="password1", address=f"2001:db8:9:1::{number:x}", now=now)
        stopped += tried.type is RateLimited
    assert stopped == 2


def test_one_who_signs_in_rightly_is_never_stopped(alice: User) -> None:
    now = timezone.now()
    for _ in range(12):
        assert sign_in(username="alice", password=PASSWORD, address="10.0.0.1", now=now) == alice


def test_who_has_an_account_has_no_more_tries_at_those_of_others(alice: User) -> None:
    """Between two guesses they log in to their own."""
    user_create(username="mallory", password=PASSWORD)
    now, refused = timezone.now(), 0
    for number in range(30):
        with pytest.raises((WrongPassword, RateLimited)) as tried:
            sign_in(username=f"user{number}", password="password1", address="10.0.0.1", now=now)
        refused += tried.type is RateLimited
        with contextlib.suppress(RateLimited):
            sign_in(username="mallory", password=PASSWORD, address="10.0.0.1", now=now)
    assert refused == 20


def test_signing_in_works_and_guessing_is_slow_while_redis_is_away(alice: User, redis_server: RedisServer) -> None:
    early_in_a_minute()
    redis_server.kill()
    assert attempt().status_code == 201
    assert [attempt(password="wrong").status_code for _ in range(11)][-1] == 429


BAD_BODIES: dict[str, tuple[dict[str, Any], str]] = {
    "a field is missing": ({"username": "alice"}, "password"),
    "a field is not known": ({"username": "alice", "password": "x", "pasword": "x"}, "pasword"),
    "a field has another type": ({"username": ["alice"], "password": "x"}, "username"),
    "a zero byte": ({"username": "a\0", "password": "x"}, "username"),
    "a scope that does not exist": ({"username": "alice", "password": "x", "scope": "root"}, "scope"),
}


@pytest.mark.parametrize("case", BAD_BODIES)
def test_a_body_of_another_shape_is_refused_with_the_path_of_what_is_wrong(case: str) -> None:
    body, path = BAD_BODIES[case]
    answer = Api().call("POST", "login", body)
    assert answer.status_code == 400
    assert [fault["path"] for fault in json.loads(answer.content)["errors"]] == [path]


def test_a_new_account_needs_a_fair_password_and_a_name_that_is_free() -> None:
    with pytest.raises(ValidationError):
        user_create(username="bob", password="short")
    user_create(username="bob", password=PASSWORD, role=ClusterRole.ADMIN)
    with pytest.raises(NameTaken):
        user_create(username="bob", password=PASSWORD)
    for name in ("../bob", "..", "import"):
        with pytest.raises(ValidationError):
            user_create(username=name, password=PASSWORD)
