"""Downloads of somebody who loses the right to them are broken off: by whichever way they lose it."""

from __future__ import annotations

import os
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.utils import timezone

from tests.integration.files.conftest import Running
from tests.support.run.lost_rights import broken_off, disabled

if TYPE_CHECKING:
    from tests.support.people.live_web import LiveWeb

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.redis]
BIG = 96 << 20


@pytest.fixture(autouse=True)
def asked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    from portal.common import lasting

    monkeypatch.setattr(lasting, "RECHECK_S", 0.02)


def big_file(running: Running) -> None:
    with (running.folder / "big").open("wb") as file:
        file.truncate(BIG)


def test_files_of_a_disabled_account(running: Running, web: LiveWeb) -> None:
    from tests.support.people.cast import Api

    big_file(running)
    headers = Api(running.world.user).headers
    for path in ("?path=big", ""):
        broken_off(web, f"/api/v1/jobs/{running.job.pk}/files/content{path}", headers, disabled(running.world.user))
        type(running.world.user).objects.update(is_active=True)


def test_files_of_the_page_after_the_session_ended(running: Running, web: LiveWeb) -> None:
    from django.contrib.sessions.models import Session

    from tests.support.people.cast import cookie_of

    big_file(running)
    path = f"/jobs/{running.job.pk}/files/content?path=big"
    broken_off(web, path, {"Cookie": cookie_of(running.world.user)}, Session.objects.all().delete)


def test_files_of_a_lead_who_left_the_team(running: Running, web: LiveWeb) -> None:
    from portal.teams.models import Membership
    from portal.teams.services.teams import member_set
    from tests.support.people.cast import Api, person

    big_file(running)
    lead = person("lead")
    member_set(vc=running.job.vc, user=lead, role="lead", now=timezone.now())
    broken_off(
        web, f"/api/v1/jobs/{running.job.pk}/files/content?path=big", Api(lead).headers,
        Membership.objects.filter(user=lead).delete,
    )  # fmt: skip


def revoked(api: Any) -> Callable[[], object]:
    from portal.accounts.services import token_revoke

    return lambda: token_revoke(token=api.token, now=timezone.now())


def test_files_by_a_token_that_is_revoked(running: Running, web: LiveWeb) -> None:
    from tests.support.people.cast import Api

    big_file(running)
    api = Api(running.world.user)
    broken_off(web, f"/api/v1/jobs/{running.job.pk}/files/content?path=big", api.headers, revoked(api))


def test_an_archive_of_code_that_was_taken_back(running: Running, web: LiveWeb) -> None:
    from portal.code.models import CodeFolder, CodeUpload
    from portal.code.services import code_upload
    from portal.code.store import CodeFiles
    from tests.support.people.cast import Api
    from tests.support.run.archives import packed

    user = running.world.user
    code, _ = code_upload(user=user, stream=BytesIO(packed({"a": b"b"})), now=timezone.now())
    os.truncate(CodeFiles(settings.CODE_DIR).path(code.sha256), BIG)
    CodeFolder.objects.update(size=BIG)
    broken_off(
        web,
        f"/api/v1/code/sha256:{code.sha256}/archive",
        Api(user).headers,
        CodeUpload.objects.filter(user=user).delete,
    )


def test_the_export_of_the_audit_log(web: LiveWeb) -> None:
    from portal.accounts.models import Audited, AuditEntry, ClusterRole
    from tests.support.people.cast import Api, person

    auditor = person("auditor", ClusterRole.AUDITOR)
    AuditEntry.objects.bulk_create(
        AuditEntry(at=timezone.now(), actor="a", action=Audited.FILES_READ, target="t", after={"x": "y" * 8000})
        for _ in range(8000)
    )  # fmt: skip
    path = "/api/v1/audit/export?format="
    for form in ("csv", "jsonl"):
        broken_off(web, path + form, Api(auditor).headers, lambda: type(auditor).objects.update(role="user"))
        type(auditor).objects.update(role=ClusterRole.AUDITOR)
