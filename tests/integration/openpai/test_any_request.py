"""Requests made from OpenPAI's API, good and bad: none meets a mistake of ours, or an answer without OpenPAI's form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django.plugin import DjangoDbBlocker

from portal.accounts import services
from portal.accounts.models import ClusterRole
from portal.common.throttles import Rate, RateLimit
from portal.openpai.api import jobs
from tests.integration.openpai.conftest import Pai
from tests.support.cluster.world import World
from tests.support.people import openpai_contract as contract
from tests.support.people.cast import person
from tests.support.people.live_web import LiveWeb, live_web
from tests.support.people.openpai_table import document
from tests.support.run.fuzz import SOME, from_document

schema = from_document(document())


@pytest.fixture(scope="module")
def root(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Pai]:
    """Of a cluster in which one job runs and one waits: one for all requests, since none may break it."""
    with django_db_blocker.unblock():
        world = World()
        world.node("gpu01", gpus=1)
        world.submit(name="a")
        world.submit(name="b")
        world.settle()
        yield Pai(person("admin", ClusterRole.ADMIN))
        call_command("flush", interactive=False, verbosity=0)


@pytest.fixture(scope="module")
def web(root: Pai) -> Iterator[LiveWeb]:
    with live_web() as running:
        yield running


@pytest.fixture
def _unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((jobs, "SUBMITS"), (services, "SIGN_INS")):
        monkeypatch.setattr(module, name, RateLimit("tests", Rate(1_000_000, 3600)))


@schema.parametrize()
@SOME
@pytest.mark.usefixtures("_unlimited")
def test_no_request_meets_a_mistake_of_ours(case: Any, web: LiveWeb, root: Pai) -> None:
    if case.operation.path.endswith("logout"):
        return  # it would end the token that all requests use
    answer = case.call(base_url=f"http://{web.host}/rest-server", headers=root.headers)
    assert answer.status_code < 500, answer.text
    kind = answer.headers.get("Content-Type", [""])[0]
    contract.check(case.method, case.operation.path, answer.status_code, kind, answer.content)
