"""Signing in by a real OpenID provider: who gets in, with which rights, and every answer that is not believed."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from portal.accounts.models import AuditEntry, ClusterRole, Identity, User
from portal.accounts.services import user_create
from portal.teams.models import Membership
from portal.teams.services.teams import member_set, vc_create
from tests.integration.people.signing_in import CALLBACK, arrive, begin, eve, rights, sign_in, time_now
from tests.support.people.cast import HOST, Api, person
from tests.support.people.pages import Browser
from tests.support.run.waiting import early_in_a_minute
from tests.support.services.oidc.provider import CLIENT, SECRET, Provider

pytestmark = pytest.mark.django_db


# ---------------------------------------------------------------- who gets in


def test_a_first_sign_in_makes_an_account_with_what_its_groups_give(provider: Provider) -> None:
    browser = Browser()
    assert browser.get("/login?next=/jobs").links["Log in with Example"] == "/login/oidc?next=%2Fjobs"
    page = sign_in(provider, browser, path="/login/oidc?next=/jobs")
    assert (page.status, "eve" in page.text) == (200, True)
    assert rights() == ("user", ["seeing"], {"vision": "member"})
    user = User.objects.get()
    assert (user.email, user.has_usable_password()) == ("eve@example.org", False)
    assert user.uid
    assert user.uid == user.gid
    identity = Identity.objects.get()
    assert (identity.issuer, identity.subject, identity.user) == (provider.issuer, "id-of-eve", user)
    told = list(AuditEntry.objects.order_by("pk").values_list("actor", "action", "target"))
    assert told[-5:] == [
        ("", "user.create", "eve"), ("", "user.identity", "eve"), ("", "group", "eve"), ("", "vc.member", "eve"),
        ("eve", "sign_in", "eve"),
    ]  # fmt: skip
    assert AuditEntry.objects.latest("pk").after == {"by": provider.issuer}
    assert 11 * 3600 < browser.client.session.get_expiry_age() <= 12 * 3600
    ends = browser.client.session.get_expiry_date()
    browser.client.session.save()
    assert browser.client.session.get_expiry_date() == ends, "whatever the session is used for"
    left = [morsel for name, morsel in browser.client.cookies.items() if name.startswith("sign-in")]
    assert [morsel.value for morsel in left] == [""]


def test_the_request_has_pkce_state_nonce_and_nothing_secret(provider: Provider) -> None:
    asked = parse_qs(urlsplit(begin(Browser())).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["scope"] == ["openid profile email"]
    assert asked["redirect_uri"] == [CALLBACK]
    assert asked.keys() >= {"state", "nonce", "code_challenge"}
    assert SECRET not in json.dumps(asked)


def test_the_same_person_comes_back_to_the_same_account_whatever_name_is_told(provider: Provider) -> None:
    sign_in(provider)
    provider.tell(users={"eve": eve("vision", preferred_username="root", email="root@example.org")})
    sign_in(provider)
    assert User.objects.get().username == "eve"


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ({}, "eve@example.org"),
        ({"email_verified": True}, "eve@example.org"),
        ({"email_verified": False}, ""),
        ({"email_verified": "false"}, ""),
        ({"email": "not an address"}, ""),
    ],
)
def test_an_address_that_the_provider_has_not_verified_is_not_kept(
    provider: Provider, told: dict[str, Any], kept: str
) -> None:
    provider.tell(users={"eve": eve("vision", **told)})
    assert sign_in(provider).status == 200
    assert User.objects.get().email == kept


def test_what_the_id_token_leaves_out_is_asked_for_and_believed_of_the_same_person_alone(provider: Provider) -> None:
    """OpenID Connect Core 1.0, section 5.3.2: the subject of both answers must be the same."""
    provider.tell(lie={"preferred_username": None, "sub": "id-of-other"})
    page = sign_in(provider)
    assert (page.status, "does not send a user name" in page.text) == (403, True), page.text
    assert not User.objects.exists()
    provider.tell(lie={"preferred_username": None, "email": "signed@example.org"})
    sign_in(provider)
    assert User.objects.values_list("username", "email").get() == ("eve", "signed@example.org")


def test_nobody_gets_anothers_account_by_its_name_or_address(provider: Provider) -> None:
    user_create(username="eve", password="correct-horse-battery", email="eve@example.org")
    page = sign_in(provider)
    assert page.status == 403
    assert "There is an account eve already, and it is not tied to you." in page.text
    provider.tell(users={"eve": eve("vision", preferred_username="other")})
    sign_in(provider)
    assert User.objects.get(identities__subject="id-of-eve").username == "other"


def test_an_account_is_tied_on_its_profile_and_then_opened_by_the_provider(provider: Provider) -> None:
    alice = person("alice")
    browser = Browser(alice)
    page = browser.send("/profile/oidc", "/profile")
    address = page.links["Go on"]
    assert address.startswith(provider.issuer)
    assert "From now on you log in by Example too." in arrive(browser, provider.approve(address, "eve")).text
    assert "alice" in sign_in(provider).text
    assert User.objects.get() == alice
    bob = Browser(person("bob"))
    said = arrive(bob, provider.approve(bob.send("/profile/oidc", "/profile").links["Go on"], "eve"))
    assert "You sign in to the account alice by it already." in said.text
    entry = AuditEntry.objects.get(action="user.identity")
    assert (entry.actor, entry.after) == ("alice", {"issuer": provider.issuer, "subject": "id-of-eve"})


def test_what_was_begun_to_tie_one_account_ties_no_other(provider: Provider) -> None:
    browser = Browser(person("alice"))
    address = provider.approve(browser.send("/profile/oidc", "/profile").links["Go on"], "eve")
    browser.client.force_login(person("bob"))
    assert "begun in another browser" in arrive(browser, address).text
    assert not Identity.objects.exists()
    assert browser.client.get("/profile/oidc").status_code == 405, "a link from elsewhere begins nothing"


def test_a_command_ties_and_loosens(provider: Provider, settings: Settings) -> None:
    person("alice")
    call_command("account", "alice", "--subject", "id-of-eve")
    assert "alice" in sign_in(provider).text
    call_command("account", "alice", "--no-subject")
    assert not Identity.objects.exists()
    with pytest.raises(CommandError, match="Nobody signs in to alice"):
        call_command("account", "alice", "--no-subject")
    settings.OIDC_ISSUER = ""
    with pytest.raises(CommandError, match="BERTH_OIDC_ISSUER"):
        call_command("account", "alice", "--subject", "id-of-eve")


@pytest.mark.parametrize(
    ("accounts", "claims", "said"),
    [
        ("none", eve("vision"), "No account here is tied to you (subject id-of-eve)."),
        ("mapped", eve("others"), "None of your groups at the sign-in provider gives you anything here."),
        ("all", eve("others", preferred_username=""), "does not send a user name, the claim preferred_username"),
        ("all", eve("others", preferred_username="e v e"), "Letters, digits, dot, dash and underscore only."),
    ],
)
def test_who_gets_no_account_is_told_why(
    provider: Provider, settings: Settings, accounts: str, claims: dict[str, Any], said: str
) -> None:
    settings.OIDC_ACCOUNTS = accounts
    provider.tell(users={"eve": claims})
    page = sign_in(provider)
    assert (page.status, said in page.text) == (403, True), page.text
    assert not User.objects.exists()
    assert AuditEntry.objects.latest("pk").action == "sign_in.refused"


def test_who_is_in_no_group_gets_an_account_without_rights_where_the_settings_say_so(
    provider: Provider, settings: Settings
) -> None:
    settings.OIDC_ACCOUNTS = "all"
    provider.tell(users={"eve": eve()})
    assert sign_in(provider).status == 200
    assert rights() == ("user", [], {})


def test_a_disabled_account_stays_out(provider: Provider) -> None:
    sign_in(provider)
    User.objects.update(is_active=False)
    page = sign_in(provider)
    assert (page.status, "Your account eve is disabled." in page.text) == (403, True)
    assert "_auth_user_id" not in Browser().client.session


# ---------------------------------------------------------------- rights


def test_rights_follow_the_groups_from_sign_in_to_sign_in(provider: Provider) -> None:
    person("root", ClusterRole.ADMIN)
    expected: list[tuple[tuple[str, ...], tuple[str, list[str], dict[str, str]]]] = [
        (("vision",), ("user", ["seeing"], {"vision": "member"})),
        (("vision", "vision-leads"), ("user", ["seeing"], {"vision": "lead"})),
        (("gpu-audit", "vision-leads"), ("auditor", [], {"vision": "lead"})),
        (("gpu-audit", "gpu-admins"), ("admin", [], {})),
        (("gone",), ("user", [], {})),
    ]
    for groups, held in expected:
        provider.tell(users={"eve": eve(*groups)})
        sign_in(provider)
        assert rights() == held, groups
    changes = AuditEntry.objects.filter(action="user.change", target="eve").order_by("pk")
    assert [(entry.before, entry.after) for entry in changes] == [
        ({"role": "user"}, {"role": "auditor"}), ({"role": "auditor"}, {"role": "admin"}),
        ({"role": "admin"}, {"role": "user"}),
    ]  # fmt: skip


def test_what_was_given_by_hand_stays(provider: Provider) -> None:
    sign_in(provider)
    user = User.objects.get()
    crew = Group.objects.create(name="crew")
    user.groups.add(crew)
    member_set(vc=vc_create(name="speech", now=time_now()), user=user, role="lead", now=time_now())
    Api(person("root", ClusterRole.ADMIN)).call("PATCH", "users/eve", {"role": "auditor"})
    provider.tell(users={"eve": eve("gpu-admins")})
    sign_in(provider)
    assert rights() == ("admin", ["crew"], {"speech": "lead"})
    provider.tell(users={"eve": eve("vision")})
    sign_in(provider)
    assert rights() == ("auditor", ["crew", "seeing"], {"speech": "lead", "vision": "member"})


def test_a_role_that_was_changed_by_hand_is_no_longer_the_groups(provider: Provider) -> None:
    sign_in(provider)
    user = User.objects.get()
    vc = Membership.objects.get().vc
    member_set(vc=vc, user=user, role="lead", now=time_now())
    provider.tell(users={"eve": eve("vision")})
    sign_in(provider)
    assert rights()[2] == {"vision": "lead"}
    provider.tell(users={"eve": eve("others")})
    sign_in(provider)
    assert rights() == ("user", [], {"vision": "lead"})


def test_the_last_administrator_stays_one(provider: Provider) -> None:
    provider.tell(users={"eve": eve("gpu-admins")})
    sign_in(provider)
    provider.tell(users={"eve": eve("vision")})
    sign_in(provider)
    assert rights()[0] == "admin"
    person("root", ClusterRole.ADMIN)
    sign_in(provider)
    assert rights()[0] == "user"


# ---------------------------------------------------------------- what is not believed


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ({"nonce": "another"}, "it is not the answer to this sign-in"),
        ({"nonce": None}, "it is not the answer to this sign-in"),
        ({"aud": "another-client"}, "it is for another client than BERTH_OIDC_CLIENT_ID (berth)"),
        ({"aud": "another-client", "azp": CLIENT}, "it is for another client"),
        ({"aud": [CLIENT, "another"], "azp": "another"}, "it is for another client"),
        ({"iss": "http://127.0.0.1:1/o"}, "its issuer is not BERTH_OIDC_ISSUER"),
        ({"exp": 1_000_000_000, "iat": 999_999_000}, "to 2001-09-09 01:46:40 UTC, and here it is"),
        ({"iat": 4_000_000_000, "exp": 4_000_003_600}, "What the sign-in provider says holds from 2096-10-02 07:06:40"),
        ({"sub": None}, "its claim sub is not right"),
        ({"sub": ""}, "its claim sub is not right"),
        ({"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}, "its claim at_hash is not right"),
        ({"key": True}, "it is not signed by a key that the provider publishes"),
        ({"groups": None}, "must send the claim groups (BERTH_OIDC_GROUPS_CLAIM)"),
        ({"groups": {"vision": True}}, "must send the claim groups"),
    ],
)
def test_an_answer_that_cannot_be_believed_lets_nobody_in(provider: Provider, lie: dict[str, Any], said: str) -> None:
    claims = eve("vision")
    if "groups" in lie:
        claims["groups"] = lie["groups"]
    provider.tell(users={"eve": claims}, lie=lie)
    page = sign_in(provider)
    assert (page.status, said in page.text) == (403, True), page.text
    assert not User.objects.exists()
    assert AuditEntry.objects.latest("pk").action == "sign_in.refused"


def test_clocks_may_differ_by_a_minute_and_no_more(provider: Provider) -> None:
    now = int(time.time())
    for ahead, status in ((50, 200), (80, 403)):
        provider.tell(lie={"iat": now + ahead, "exp": now + ahead + 600})
        assert sign_in(provider).status == status


def test_a_code_is_used_once_and_in_the_browser_that_asked(provider: Provider) -> None:
    browser = Browser()
    address = begin(browser)
    back = provider.approve(address, "eve")
    assert "begun in another browser" in arrive(Browser(), back).text
    cookies = {name: morsel.value for name, morsel in browser.client.cookies.items()}
    assert arrive(browser, back).status == 200
    again = Browser()
    for name, value in cookies.items():
        again.client.cookies[name] = value
    page = arrive(again, back)
    assert (page.status, "does not take its own code back: it was used already" in page.text) == (502, True)
    assert "begun in another browser" in arrive(browser, "/login/oidc/callback?code=x&state=y").text


@pytest.mark.parametrize("change", [("state", "x"), ("iss", "https://elsewhere.example.org")], ids=["state", "issuer"])
def test_an_answer_of_another_sign_in_or_provider_is_not_taken_though_its_cookie_is_there(
    provider: Provider, change: tuple[str, str]
) -> None:
    """Issuer: RFC 9207. The cookie is found by the beginning of the state."""
    browser = Browser()
    parts = urlsplit(provider.approve(begin(browser), "eve"))
    answer = {name: values[0] for name, values in parse_qs(parts.query).items()}
    name, value = change
    was = answer.get(name, "")
    changed = answer | {name: was[:-1] + (value if was[-1:] != value else "y")}
    assert "begun in another browser" in arrive(browser, f"{parts.path}?{urlencode(changed)}").text
    assert not User.objects.exists()


def test_a_refusal_at_the_provider_is_told(provider: Provider) -> None:
    browser = Browser()
    state = parse_qs(urlsplit(begin(browser)).query)["state"][0]
    page = arrive(browser, f"/login/oidc/callback?state={state}&error=access_denied")
    assert (page.status, "did not let you in" in page.text) == (403, True)


@pytest.mark.parametrize(
    "query", ["", "?state=%0a%3b%00", "?state=x&error=%00&code=%00", "?state=x&state=y&code=1&code=2"]
)
def test_an_answer_of_any_shape_is_refused_in_words(provider: Provider, query: str) -> None:
    page = Browser().get(f"/login/oidc/callback{query}")
    assert (page.status, "begun in another browser" in page.text) == (400, True)


def test_unfinished_sign_ins_are_slowed_down(provider: Provider) -> None:
    early_in_a_minute()
    statuses = [Browser().get("/login/oidc/callback?state=x").status for _ in range(11)]
    assert statuses == [400] * 10 + [429]


# ---------------------------------------------------------------- what was typed


def test_what_was_typed_survives_a_sign_in_beside_it(provider: Provider) -> None:
    from tests.integration.accounts.test_kept_forms import post

    browser = Browser()
    sign_in(provider, browser)
    page = browser.get("/profile")
    browser.client.session.flush()
    ended = post(browser, "/profile/tokens", page, name="laptop", scope="read", days="30")
    assert (ended.status, "It opens in a new tab" in ended.text) == (401, True)
    early = post(browser, "/login", ended, signed_in="on")
    assert "It opens in a new tab" in early.text, "not before one is logged in"
    sign_in(provider, browser)
    offered = post(browser, "/login", early, {"Origin": f"http://{HOST}"}, signed_in="on")
    assert ("Not sent yet" in offered.text, "laptop" in offered.html) == (True, True)
    assert "The token “laptop” is created." in post(browser, "/profile/tokens", offered).text
