"""The OpenAPI document against the API: requests made from it, good and bad, get answers that it declares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.test import Client
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from portal.accounts import services
from portal.accounts.models import ClusterRole
from portal.common.throttles import Rate, RateLimit
from portal.jobs.api import views
from tests.support.cast import HOST, Api, person
from tests.support.live_web import LiveWeb, live_web
from tests.support.world import World

pytestmark = pytest.mark.django_db(transaction=True)
DOCUMENT: dict[str, Any] = Client(HTTP_HOST=HOST).get("/api/v1/openapi.json").json()
SOME = settings(
    max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
schema = schemathesis.openapi.from_dict(DOCUMENT)


@pytest.fixture
def admin(transactional_db: None) -> Api:
    """Of a cluster in which one job runs and one waits; without limits on how often."""
    world = World()
    world.node("gpu01", gpus=1)
    world.submit()
    world.submit()
    world.settle()
    return Api(person("admin", ClusterRole.ADMIN))


@pytest.fixture
def web(admin: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveWeb]:
    for module, name in ((views, "SUBMITS"), (services, "SIGN_INS")):
        monkeypatch.setattr(module, name, RateLimit("tests", Rate(1_000_000, 3600)))
    with live_web() as running:
        yield running


@schema.parametrize()
@SOME
def test_no_request_meets_a_mistake_of_ours_or_an_answer_that_is_not_declared(
    case: Any, web: LiveWeb, admin: Api
) -> None:
    # Cursors, job files and names are judged by more than their shape.
    no = [positive_data_acceptance]
    case.call_and_validate(base_url=f"http://{web.host}", headers=admin.headers, excluded_checks=no)
