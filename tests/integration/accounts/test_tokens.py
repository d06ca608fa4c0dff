"""Bearer tokens: what they open, when they end, what is kept of them."""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from portal.accounts.models import Audited, AuditEntry, ClusterRole, Scope, Token, User
from portal.accounts.services import TOUCH_EVERY
from tests.support.people.cast import HOST, Api, person

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> User:
    return person("alice")


def test_a_token_is_shown_once_and_only_its_hash_is_kept(alice: User) -> None:
    made = Api(alice).call("POST", "tokens", {"name": "laptop", "scope": "read", "expires_in_days": 7}).json()
    row = Token.objects.get(pk=made["id"])
    assert row.digest == hashlib.sha256(made["token"].encode()).hexdigest()
    assert made["token"].startswith(made["prefix"])
    assert len(made["token"]) > 45
    assert row.expires_at is not None
    assert timedelta(days=6) < row.expires_at - timezone.now() < timedelta(days=8)
    listed = Api(alice).call("GET", "tokens")
    assert made["token"].encode() not in listed.content
    assert row.digest.encode() not in listed.content


def test_one_sees_and_ends_only_tokens_of_ones_own(alice: User) -> None:
    bob = Api(person("bob"))
    mine = Api(alice)
    assert bob.names("tokens", "id") == [bob.token.pk]
    assert bob.call("DELETE", f"tokens/{mine.token.pk}").status_code == 404
    assert mine.call("GET", "me").status_code == 200


ENDINGS = {
    "expired": {"expires_at": timezone.now() - timedelta(seconds=1)},
    "revoked": {"revoked_at": timezone.now()},
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_token_that_ended_opens_nothing(alice: User, ending: str) -> None:
    api = Api(alice)
    Token.objects.filter(pk=api.token.pk).update(**ENDINGS[ending])
    answer = api.call("GET", "me")
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_a_token_of_a_disabled_account_opens_nothing(alice: User) -> None:
    api = Api(alice)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert api.call("GET", "me").status_code == 401


def test_what_names_no_scope_is_for_tokens_with_every_right() -> None:
    root = person("root", ClusterRole.ADMIN)
    for scope, status in ((Scope.READ, 403), (Scope.SUBMIT, 403), (Scope.ADMIN, 201)):
        assert Api(root, scope=scope).call("POST", "groups", {"name": "crew"}).status_code == status, scope


def test_revoking_ends_a_token_at_once_and_takes_it_off_the_list(alice: User) -> None:
    keeper, lost = Api(alice), Api(alice)
    assert keeper.call("DELETE", f"tokens/{lost.token.pk}").status_code == 204
    assert lost.call("GET", "me").status_code == 401
    assert keeper.names("tokens", "id") == [keeper.token.pk]


@pytest.mark.parametrize("scope", list(Scope))
def test_a_token_ends_itself_whatever_its_scope_and_no_other(alice: User, scope: Scope) -> None:
    keeper, own = Api(alice), Api(alice, scope=scope)
    assert own.call("DELETE", "tokens/current").status_code == 204
    assert own.call("GET", "me").status_code == 401
    assert keeper.names("tokens", "id") == [keeper.token.pk]
    (entry,) = AuditEntry.objects.filter(action=Audited.TOKEN_REVOKE)
    assert (entry.actor, entry.target) == ("alice", own.token.prefix)


def test_a_browsers_session_has_no_token_to_end(alice: User) -> None:
    keeper, client = Api(alice), Client(HTTP_HOST=HOST)
    client.force_login(alice)
    refused = client.delete("/api/v1/tokens/current")
    assert (refused.status_code, refused.json()["detail"]) == (404, "The request came without a token.")
    assert keeper.names("tokens", "id") == [keeper.token.pk]


WRONG_HEADERS = ["Bearer", "Bearer a b", "Bearer berth_unknown", "Bearer " + "ü" * 8, "bearer\tx"]


@pytest.mark.parametrize("header", WRONG_HEADERS)
def test_a_header_that_holds_no_good_token_is_refused_not_taken_for_nobody(alice: User, header: str) -> None:
    client = Client(HTTP_HOST=HOST)
    client.force_login(alice)
    assert client.get("/api/v1/me", headers={"Authorization": header}).status_code == 401


def test_the_last_use_is_noted_and_not_at_every_request(alice: User) -> None:
    api = Api(alice)
    api.get("me")
    first = Token.objects.get(pk=api.token.pk).last_used_at
    assert first is not None
    api.get("me")
    assert Token.objects.get(pk=api.token.pk).last_used_at == first
    Token.objects.update(last_used_at=first - TOUCH_EVERY)
    api.get("me")
    assert (Token.objects.get(pk=api.token.pk).last_used_at or first) >= first


CODE = f"sha256:{'0' * 64}"


def operations() -> list[tuple[str, str]]:
    """Every address and method of the document, with parameters filled in."""
    paths = Client(HTTP_HOST=HOST).get("/api/v1/openapi.json").json()["paths"]
    names = {"name": "gpu01", "secret": "key", "code": CODE}
    return [
        (method.upper(), re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], "1"), path.removeprefix("/api/v1/")))
        for path, methods in paths.items()
        for method in methods
    ]


OPEN = ("login", "join")
"""They take what is sent for the credential: a password, a join token."""
ENDS = "tokens/current"
"""It ends the token by which it is asked."""
NEEDS = {
    ("POST", "jobs"): Scope.SUBMIT,
    ("POST", "jobs/1/stop"): Scope.SUBMIT,
    ("POST", "jobs/1/move"): Scope.SUBMIT,
    ("POST", "jobs/1/pause"): Scope.SUBMIT,
    ("POST", "jobs/1/park"): Scope.SUBMIT,
    ("POST", "jobs/1/resume"): Scope.SUBMIT,
    ("POST", "jobs/1/idle/extend"): Scope.SUBMIT,
    ("POST", "jobs/1/place"): Scope.SUBMIT,
    ("POST", "jobs/1/priority"): Scope.SUBMIT,
    ("PATCH", "jobs/1/tags"): Scope.SUBMIT,
    ("POST", "jobs/bulk"): Scope.SUBMIT,
    ("POST", "saved-views"): Scope.SUBMIT,
    ("DELETE", "saved-views/1"): Scope.SUBMIT,
    ("POST", "code"): Scope.SUBMIT,
    ("DELETE", f"code/{CODE}"): Scope.SUBMIT,
    ("POST", "templates"): Scope.SUBMIT,
    ("PATCH", "templates/1"): Scope.SUBMIT,
    ("DELETE", "templates/1"): Scope.SUBMIT,
    ("POST", "validate"): Scope.READ,
    ("POST", "estimates"): Scope.READ,
}


@pytest.mark.parametrize("scope", list(Scope))
def test_a_scope_opens_what_it_says_and_what_the_lesser_ones_open(alice: User, scope: Scope) -> None:
    api, ladder = Api(alice, scope=scope), list(Scope)
    for method, path in operations():
        if path in OPEN or path == ENDS:
            continue
        needed = Scope.READ if method == "GET" else NEEDS.get((method, path), Scope.ADMIN)
        answer = api.call(method, path, {})
        refused = answer.status_code == 403 and b"This token has the scope" in answer.content
        assert refused is (ladder.index(scope) < ladder.index(needed)), (method, path, answer.content)


def test_without_a_credential_everything_but_signing_in_and_joining_is_closed(db: None) -> None:
    answers = {
        (method, path): Api().call(method, path, {}).status_code for method, path in operations() if path not in OPEN
    }
    assert set(answers.values()) == {401}, answers


def test_a_browsers_session_may_read_and_needs_the_csrf_token_to_write(alice: User) -> None:
    client = Client(HTTP_HOST=HOST, enforce_csrf_checks=True)
    client.force_login(alice)
    assert client.get("/api/v1/me").json()["scope"] == "admin"
    refused = client.post("/api/v1/tokens", {"name": "x"}, content_type="application/json")
    assert refused.status_code == 403
    assert "CSRF" in refused.json()["detail"]
