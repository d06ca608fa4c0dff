"""Numbers of accounts on storages: each has one of its own, which nobody had before."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django.fixtures import Settings as Changed

from portal.accounts.checks import accounts_have_uids
from portal.accounts.models import AuditEntry, User
from portal.accounts.people import user_remove
from portal.accounts.services import NameTaken, user_create
from portal.common.checks import settings_fit
from tests.support.people.cast import person

pytestmark = pytest.mark.django_db(transaction=True)


def made(name: str, **about: Any) -> User:
    return user_create(username=name, password=None, **about)


def number_of(user: User) -> int:
    """As the database has it."""
    uid = User.objects.get(pk=user.pk).uid
    assert uid is not None
    return uid


def test_an_account_without_a_uid_gets_one_that_no_other_has_or_had(settings: Changed) -> None:
    dora, erin = made("dora"), made("erin")
    first, second = number_of(dora), number_of(erin)
    assert settings.UID_FIRST < first < second <= settings.UID_LAST
    assert (dora.gid, erin.gid) == (first, second)
    told = AuditEntry.objects.get(action="user.create", target="dora").after
    assert told is not None
    assert (told["uid"], told["gid"]) == (first, first)
    user_remove(user=erin, now=timezone.now(), actor="root")
    assert number_of(made("erin")) > second


def test_what_an_administrator_gives_stays() -> None:
    given = made("dora", uid=5001, gid=100)
    assert (given.uid, given.gid) == (5001, 100)
    of_a_group = made("erin", gid=100)
    assert (of_a_group.uid != 5001, of_a_group.gid) == (True, 100)


def test_numbers_that_were_given_by_hand_are_passed_over() -> None:
    first = number_of(made("erin"))
    for number in range(5):
        made(f"dora{number}", uid=first + 6 + number)  # those of the next five accounts
    frank = made("frank")
    assert (number_of(frank), frank.gid) == (first + 11, first + 11)
    assert number_of(made("grace")) == first + 12


def test_an_account_of_before_is_not_given_a_number_that_another_one_has() -> None:
    dora, erin = person("dora"), person("erin")
    User.objects.filter(pk=dora.pk).update(uid=None, gid=None)
    User.objects.filter(pk=erin.pk).update(uid=70_000 + dora.pk)
    with pytest.raises(CommandError, match="is another account's or above BERTH_UID_LAST: give it one by hand"):
        call_command("account", "dora", "--own-uid")


def test_a_number_beyond_the_range_is_refused(settings: Changed) -> None:
    settings.UID_FIRST, settings.UID_LAST = 80_000, 80_001
    with pytest.raises(NameTaken, match="give it one by hand, or the portal another range"):
        made("frank")
    assert not User.objects.filter(username="frank").exists()


def test_a_range_with_nobodys_number_or_with_none_is_refused_at_the_start(settings: Changed) -> None:
    settings.DATA_DIR.mkdir(parents=True, exist_ok=True)
    for first, last, faults in ((70_000, 99_999, []), (60_000, 65_534, ["berth.E009"]), (5000, 4999, ["berth.E009"])):
        settings.UID_FIRST, settings.UID_LAST = first, last
        assert [one.id for one in settings_fit(None)] == faults


def test_who_has_none_is_told_and_given_one() -> None:
    person("dora")
    User.objects.filter(username="dora").update(uid=None, gid=None)
    (warning,) = accounts_have_uids(None)
    assert (warning.id, "share 65534: dora." in warning.msg) == ("berth.W004", True)
    err = StringIO()
    call_command("account", "dora", "--own-uid", stderr=err)
    dora = User.objects.get(username="dora")
    assert (dora.uid, dora.gid) == (dora.uid, dora.uid) != (None, None)
    assert err.getvalue() == f"dora: user, active, uid {dora.uid}\n"
    call_command("account", "dora", "--own-uid", stderr=err)
    assert User.objects.get(username="dora").uid == dora.uid
    assert accounts_have_uids(None) == []
