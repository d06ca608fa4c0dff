"""The OpenAPI document against the API: requests made from it, good and bad, get answers that it declares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.management import call_command
from django.test import Client
from hypothesis.strategies import sampled_from
from pytest_django.plugin import DjangoDbBlocker
from schemathesis.specs.openapi.checks import positive_data_acceptance

from nodes.protocol.packed import MEDIA_TYPE
from portal.accounts import services
from portal.accounts.models import ClusterRole
from portal.common.throttles import Rate, RateLimit
from portal.job_pages.api import code
from portal.job_pages.api import jobs as views
from tests.support.cluster.world import World
from tests.support.people.cast import HOST, Api, person
from tests.support.people.live_web import LiveWeb, live_web
from tests.support.run.archives import HELLO, packed
from tests.support.run.fuzz import SOME, from_document

DOCUMENT: dict[str, Any] = Client(HTTP_HOST=HOST).get("/api/v1/openapi.json").json()
ARCHIVES = sampled_from([packed(HELLO), packed({"../up": b"x"}), b"no archive", b""])
schemathesis.openapi.media_type(MEDIA_TYPE, ARCHIVES)
schemathesis.serializer(MEDIA_TYPE)(lambda context, value: value)
schema = from_document(DOCUMENT)


@pytest.fixture(scope="module")
def admin(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Api]:
    """Of a cluster in which one job runs and one waits: one for all requests, since none may break it."""
    with django_db_blocker.unblock():
        world = World()
        world.node("gpu01", gpus=1)
        world.submit()
        world.submit()
        world.settle()
        yield Api(person("admin", ClusterRole.ADMIN))
        call_command("flush", interactive=False, verbosity=0)


@pytest.fixture(scope="module")
def web(admin: Api) -> Iterator[LiveWeb]:
    with live_web() as running:
        yield running


@pytest.fixture
def _unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((views, "SUBMITS"), (code, "UPLOADS"), (services, "SIGN_INS")):
        monkeypatch.setattr(module, name, RateLimit("tests", Rate(1_000_000, 3600)))


@pytest.mark.fuzz
@schema.parametrize()
@SOME
@pytest.mark.usefixtures("_unlimited")
def test_no_request_meets_a_mistake_of_ours_or_an_answer_that_is_not_declared(
    case: Any, web: LiveWeb, admin: Api
) -> None:
    # Cursors, job files and names are judged by more than their shape.
    no = [positive_data_acceptance]
    case.call_and_validate(base_url=f"http://{web.host}", headers=admin.headers, excluded_checks=no)
