"""The API test suite that comes inside OpenPAI's published SDK, every test of it, against the portal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from django.utils import timezone

from portal.accounts.models import ClusterRole, Scope
from portal.accounts.services import token_create, user_create
from portal.hardware.models import CellType
from portal.storages.models import Storage
from portal.teams.services.quotas import quota_set
from portal.teams.services.teams import vc_create
from tests.support.cluster.world import World
from tests.support.people.live_web import LiveWeb, live_web
from tests.support.people.openpai_table import schema
from tests.support.services import openpai_sdk

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.npm]
USER, PASSWORD = "sdk_test", "correct horse battery"


@pytest.fixture
def web(world: World) -> Iterator[LiveWeb]:
    """A portal whose virtual cluster ``default`` has a node and a storage."""
    world.node("gpu01")
    default = vc_create(name="default", now=timezone.now())
    gpus = CellType.objects.get(child__isnull=True)
    quota_set(vc=world.vc, cell_type=gpus, count=2, now=timezone.now())
    quota_set(vc=default, cell_type=gpus, count=2, now=timezone.now())
    Storage.objects.create(name="data", root="/data", everyone=True)
    with live_web() as running:
        yield running


def test_every_test_of_the_suite_passes(web: LiveWeb, tmp_path: Path) -> None:
    admin = user_create(username=USER, password=PASSWORD, role=ClusterRole.ADMIN)
    token = token_create(user=admin, name="suite", scope=Scope.ADMIN, now=timezone.now(), expires_at=None).secret
    protocol = tmp_path / "protocol.yaml"
    protocol.write_text(yaml.safe_dump({"components": {"schemas": {"JobProtocol": schema("JobProtocol")}}}))
    suite = openpai_sdk.own_tests(tmp_path, schema=protocol)
    cluster = {
        "alias": "berth", "rest_server_uri": f"http://{web.host}/rest-server", "https": False,
        "username": USER, "password": PASSWORD, "token": token,
    }  # fmt: skip
    (suite / ".tests" / "clusters.json").write_text(json.dumps([cluster]))
    made = openpai_sdk.run(
        "node", str(suite / "tests/common/apiTestCaseGenerator.js"), "--",
        str(suite / "src/api/v2/swagger.yaml"), str(suite / ".tests/apiTestCase.json"), home=tmp_path,
    )  # fmt: skip
    assert "Success." in made.stdout, made.stdout + made.stderr
    report = tmp_path / "report.xml"
    ended = openpai_sdk.run(
        "node", str(openpai_sdk.MODULES / "mocha/bin/mocha"), str(suite / "tests/api_tests/v2/api.v2.spec.js"),
        "--timeout", "20000", "--reporter", "xunit", "--reporter-option", f"output={report}", home=tmp_path,
        deadline_s=240,
    )  # fmt: skip
    assert report.exists(), ended.stderr
    cases = ElementTree.parse(report).getroot().findall("testcase")
    failed = {case.get("name"): failure.text for case in cases if (failure := case.find("failure")) is not None}
    assert not failed, ended.stdout
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert len(cases) >= 60
