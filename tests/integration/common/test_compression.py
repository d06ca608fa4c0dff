"""Pages are compressed for who takes gzip; what comes in pieces, has parts or is no page goes out as it was made."""

from __future__ import annotations

import gzip
from io import BytesIO

import pytest
from django.http import FileResponse, HttpResponse, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.test import Client, RequestFactory

from portal.common.compression import LEAST_BYTES, CompressedPages
from tests.support.people.cast import HOST, person

LONG = b"<p>page</p>" * LEAST_BYTES


def passed(answer: HttpResponseBase, taken: str = "gzip, br") -> HttpResponseBase:
    request = RequestFactory().get("/", HTTP_ACCEPT_ENCODING=taken)
    return CompressedPages(lambda _request: answer).process_response(request, answer)


@pytest.mark.django_db
def test_a_page_is_the_same_compressed_and_a_fifth_of_its_length() -> None:
    client = Client(headers={"host": HOST})
    client.force_login(person("reader"))
    plain, packed = client.get("/jobs"), client.get("/jobs", headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in packed.headers["Vary"]
    assert int(packed.headers["Content-Length"]) == len(packed.content) < len(plain.content) / 3
    assert gzip.decompress(packed.content).startswith(b"<!doctype html>")
    head = client.head("/jobs", headers={"Accept-Encoding": "gzip"})
    assert head.headers["Content-Encoding"] == "gzip"
    assert head.content == b""


def test_the_length_of_a_page_tells_nothing_of_what_is_on_it() -> None:
    assert len({len(passed(HttpResponse(LONG)).content) for _ in range(40)}) > 5  # type: ignore[attr-defined]


@pytest.mark.parametrize("answer", [
    HttpResponse(b"<p>short</p>"),
    JsonResponse({"results": ["long"] * LEAST_BYTES}),
    HttpResponse(LONG, content_type="text/plain", headers={"Content-Range": "bytes 0-9/10", "ETag": '"1"'}, status=206),
    StreamingHttpResponse(iter([LONG]), headers={"ETag": '"1"', "Content-Length": str(len(LONG))}),
    FileResponse(BytesIO(LONG), content_type="text/html"),
])  # fmt: skip
def test_everything_else_goes_out_as_it_was_made(answer: HttpResponseBase) -> None:
    before = dict(answer.headers)
    assert dict(passed(answer).headers) == before


def test_who_does_not_take_gzip_gets_the_page_itself() -> None:
    answer = passed(HttpResponse(LONG), "br, deflate")
    assert "Content-Encoding" not in answer.headers
    assert answer.headers["Vary"] == "Accept-Encoding"
