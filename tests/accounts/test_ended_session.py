"""A page that stays open after its session has ended."""

from __future__ import annotations

import pytest

from tests.support.cast import person
from tests.support.pages import Browser

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
