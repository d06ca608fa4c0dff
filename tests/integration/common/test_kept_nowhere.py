"""What browsers and proxies may keep: the files that pages are made of, and no answer to anybody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from portal.accounts.models import ClusterRole
from tests.support.people.cast import HOST, Api, person

pytestmark = pytest.mark.django_db
PAGES = ["/", "/jobs", "/submit", "/cluster", "/cluster/map", "/account", "/users", "/settings", "/audit", "/usage",
         "/help", "/admin/", "/nowhere"]  # fmt: skip
ANSWERS = ["/api/v1/me", "/api/v1/jobs", "/api/v1/jobs/9", "/api/v1/audit/export", "/api/v1/nowhere",
           "/rest-server/api/v2/info", "/rest-server/api/v2/jobs"]  # fmt: skip
ANYBODY = ["/login", "/healthz", "/jobs", "/api/v1/me", "/reset/x/y/", "/admin/login/"]


def kept(answers: dict[str, Any]) -> list[str]:
    return [path for path, answer in answers.items() if "no-store" not in answer.headers.get("Cache-Control", "")]


def test_no_page_of_somebody_is_kept() -> None:
    client = Client(HTTP_HOST=HOST)
    client.force_login(person("root", ClusterRole.ADMIN))
    told = {path: client.get(path) for path in [*PAGES, *ANSWERS]}
    told |= {"posted": client.post("/account"), "logged out": client.post("/logout")}
    assert kept(told) == []


def test_no_answer_to_a_program_is_kept() -> None:
    headers = Api(person("root", ClusterRole.ADMIN)).headers
    assert kept({path: Client(HTTP_HOST=HOST).get(path, headers=headers) for path in ANSWERS}) == []


def test_nothing_that_anybody_sees_is_kept() -> None:
    assert kept({path: Client(HTTP_HOST=HOST).get(path) for path in ANYBODY}) == []


def test_files_of_pages_are_kept(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "main-AbCd1234.js").write_text("// the front end")
    settings.STATIC_ROOT = tmp_path
    answer = Client(HTTP_HOST=HOST).get("/static/assets/main-AbCd1234.js")
    assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "max-age=315360000, public, immutable")
