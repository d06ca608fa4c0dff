"""A long log whose reader loses the right to it is broken off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import httpx
import pytest
from pytest_django.fixtures import Settings

from tests.integration.logs.conftest import RunningLog
from tests.support.cluster.agent_logs import line
from tests.support.run.lost_rights import broken_off, disabled

if TYPE_CHECKING:
    from tests.support.people.live_web import LiveWeb

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.redis]
LINE, LINES = 4000, 6000


@pytest.fixture
def web(
    running_log: RunningLog, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LiveWeb]:
    from portal.common import lasting
    from tests.support.people.live_web import live_web

    monkeypatch.setattr(lasting, "RECHECK_S", 0.02)
    settings.LOG_DIR = tmp_path / "logs"
    seeded = Random(7)
    running_log.source.print(*(line(n + 1, seeded.randbytes(LINE // 2).hex() + "\n") for n in range(LINES)))
    running_log.source.end()
    running_log.archive_all()
    with live_web() as running:
        yield running


@pytest.mark.parametrize("path", ["logs?format=text", "logs/all", "logs/all?format=zip"])
def test_the_log_of_a_disabled_account(running_log: RunningLog, web: LiveWeb, path: str) -> None:
    from tests.support.people.cast import Api

    user = running_log.world.user
    path = f"/api/v1/jobs/{running_log.row.task.job_id}/{path}"
    broken_off(web, path, Api(user).headers, disabled(user))


def test_a_log_of_openpais_api_whose_token_is_revoked(running_log: RunningLog, web: LiveWeb) -> None:
    from django.utils import timezone

    from portal.accounts.services import token_revoke
    from portal.openpai.logs import log_addresses
    from tests.support.people.cast import Api

    api = Api(running_log.world.user)
    path = next(
        one.path for one in log_addresses(row=running_log.row, token=api.token, tail=False) if one.name == "all"
    )
    broken_off(web, path, {}, lambda: token_revoke(token=api.token, now=timezone.now()))
    assert httpx.get(f"http://{web.host}{path}", trust_env=False).status_code == 401
