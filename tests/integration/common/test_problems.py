"""Refusals of the API: one form, whatever went wrong and wherever."""

from __future__ import annotations

import json

import pytest
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.urls import path

from portal.common.problems import internal_error, not_found
from portal.urls import urlpatterns as real
from tests.support.people.cast import HOST, Api, person

pytestmark = pytest.mark.django_db
PROBLEM = "application/problem+json"

handler404, handler500 = not_found, internal_error
MANY = {f"field-{number}": "x" for number in range(1100)}


def broken(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("a password")


urlpatterns = [*real, path("api/v1/broken", broken), path("broken", broken)]
"""This module as the root of addresses: the portal's own, and two that fail."""

BAD: dict[str, tuple[str, str, bytes, str, int]] = {
    "no such address": ("GET", "nothing", b"", "application/json", 404),
    "no such method": ("PUT", "jobs", b"", "application/json", 405),
    "broken JSON": ("POST", "tokens", b"{", "application/json", 400),
    "JSON that is no object": ("POST", "tokens", b"[1]", "application/json", 400),
    "a number that JSON has not": ("POST", "tokens", b'{"name": NaN}', "application/json", 400),
    "brackets without end": ("POST", "tokens", b"[" * 100_000, "application/json", 400),
    "no UTF-8": ("POST", "tokens", b'"\xff"', "application/json", 400),
    "half a character": ("POST", "tokens", b'{"name": "\\ud800"}', "application/json", 400),
    "a form": ("POST", "tokens", b"name=x", "application/x-www-form-urlencoded", 415),
    "a huge body": ("POST", "tokens", b" " * (settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1), "application/json", 413),
}


@pytest.mark.parametrize("case", BAD)
def test_whatever_is_wrong_with_a_request_is_told_in_one_form(case: str) -> None:
    method, address, body, kind, status = BAD[case]
    answer = Api(person("alice")).call(method, address, body, kind=kind)
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, PROBLEM)
    problem = json.loads(answer.content)
    assert {"type", "title", "status", "detail"} <= problem.keys()
    assert problem["status"] == status
    assert problem["detail"]


def test_a_form_of_answer_that_we_do_not_have_is_refused() -> None:
    assert Api(person("alice")).call("GET", "me", accept="text/html").status_code == 406


def test_all_wrong_fields_are_told_at_once() -> None:
    answer = Api(person("alice")).call("POST", "tokens", {"scope": "x", "expires_in_days": 0, "nme": "y"})
    found = {fault["path"]: fault["code"] for fault in json.loads(answer.content)["errors"]}
    assert found == {"nme": "invalid"}, "an unknown field is told before the others: they may be meant by it"
    answer = Api(person("bob")).call("POST", "tokens", {"scope": "x", "expires_in_days": 0})
    found = {fault["path"]: fault["code"] for fault in json.loads(answer.content)["errors"]}
    assert found == {"name": "required", "scope": "invalid_choice", "expires_in_days": "min_value"}


def test_of_several_wrong_fields_each_is_named_in_the_sentence() -> None:
    answer = Api(person("alice")).call("POST", "tokens", {"name": "x", "nme": "y", "scop": "read"})
    no, known = "There is no such field; there are", "name, scope, expires_in_days."
    assert json.loads(answer.content)["detail"] == f"nme: {no}: {known}; scop: {no}: {known}"


@override_settings(ROOT_URLCONF="tests.integration.common.test_problems")
def test_a_mistake_of_ours_tells_nothing_of_what_happened() -> None:
    client = Client(HTTP_HOST=HOST, raise_request_exception=False)
    answer = client.get("/api/v1/broken")
    assert (answer.status_code, answer.headers["Content-Type"]) == (500, PROBLEM)
    assert b"password" not in answer.content
    assert client.get("/broken").headers["Content-Type"].startswith("text/html")


def test_pages_keep_their_own_not_found() -> None:
    assert Client(HTTP_HOST=HOST).get("/nothing").headers["Content-Type"].startswith("text/html")


def test_a_form_that_is_too_large_or_not_understood_gets_a_page_that_says_so() -> None:
    client = Client(HTTP_HOST=HOST)
    for fields, status, words in (({"next": "x" * 2_100_000}, 413, "Too large"), (MANY, 400, "Not understood")):
        answer = client.post("/login", fields)
        assert (answer.status_code, answer.headers["Content-Type"]) == (status, "text/html; charset=utf-8")
        assert words in answer.content.decode()
