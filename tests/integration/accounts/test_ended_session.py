"""A page that stays open after its session has ended, and what is kept of that session."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.utils import timezone

from portal.accounts import sessions, tasks
from tests.support.people.cast import person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db
PAGE = "http://127.0.0.1/jobs?state=live"


def test_a_part_asked_for_after_the_session_has_ended_leads_the_whole_page_to_the_log_in_and_back() -> None:
    answer = Browser().get("/jobs", HX_Request="true", HX_Current_URL=PAGE)
    assert (answer.status, answer.text) == (200, "")
    assert answer.headers["HX-Redirect"] == "/login?next=/jobs%3Fstate%3Dlive"


def test_whoever_is_signed_in_gets_the_part_and_a_page_without_script_is_led_there_as_ever() -> None:
    part = Browser(person("carol")).get("/jobs", HX_Request="true", HX_Current_URL=PAGE)
    assert (part.status, "HX-Redirect" in part.headers) == (200, False)
    assert Browser().get("/jobs").headers["Location"] == "/login?next=/jobs"


def test_sessions_that_are_over_are_deleted_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "EXPIRED_AT_ONCE", 2)
    now = timezone.now()
    for number in range(5):
        Session.objects.create(session_key=f"over-{number}", expire_date=now - timedelta(seconds=1 + number))
    browser = Browser(person("carol"))
    assert sessions.sessions_expire(now=now) == 5
    assert browser.get("/jobs").status == 200
    assert Session.objects.count() == 1
    Session.objects.update(expire_date=now - timedelta(seconds=1))
    assert tasks.forget_sessions.name in {entry["task"] for entry in settings.CELERY["beat_schedule"].values()}
    tasks.forget_sessions()
    assert not Session.objects.exists()
