"""The pages as somebody sees them who has no script: text, links and forms of the HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any, cast

from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext

from portal.accounts.models import User
from tests.support.people.cast import HOST

UNSEEN = {"script", "style", "template", "title"}


class Page(HTMLParser):
    """A page that was answered. ``text`` is what stands on it, with single blanks."""

    def __init__(self, answer: HttpResponse) -> None:
        super().__init__()
        self.status, self.headers = answer.status_code, answer.headers
        self.html = answer.content.decode()
        self.links: dict[str, str] = {}
        self.tags: list[tuple[str, dict[str, str]]] = []
        self._words: list[str] = []
        self._hidden = 0
        self._link: tuple[str, list[str]] | None = None
        self.feed(self.html)
        self.text = " ".join("".join(self._words).split())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attributes}
        self.tags.append((tag, named))
        if tag in UNSEEN:
            self._hidden += 1
        elif tag == "a":
            self._link = (named.get("href", ""), [])
        self._words.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in UNSEEN:
            self._hidden -= 1
        elif tag == "a" and self._link:
            self.links[" ".join("".join(self._link[1]).split())] = self._link[0]
            self._link = None
        self._words.append(" ")

    def handle_data(self, data: str) -> None:
        if self._hidden:
            return
        self._words.append(data)
        if self._link:
            self._link[1].append(data)

    def attribute(self, tag: str, name: str) -> list[str]:
        """That attribute of every such tag that has it."""
        return [named[name] for found, named in self.tags if found == tag and name in named]


class Browser:
    """A browser session without script; signed in where a user is given."""

    def __init__(self, user: User | None = None) -> None:
        self.client = Client(HTTP_HOST=HOST, enforce_csrf_checks=True)
        if user is not None:
            self.client.force_login(user)

    def get(self, path: str, **headers: str) -> Page:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return Page(cast(HttpResponse, self.client.get(path, headers=named)))

    def send(self, path: str, form: str = "", **fields: Any) -> Page:
        """Fill in the form on page ``form`` (else ``path``) and follow where that leads."""
        seen = self.get(form or path)
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', seen.html)
        sent = {"csrfmiddlewaretoken": token[1] if token else "", **fields}
        return Page(cast(HttpResponse, self.client.post(path, sent, follow=True)))

    def queries(self, path: str) -> int:
        """How many queries the page takes."""
        with CaptureQueriesContext(connection) as captured:
            assert self.get(path).status == 200
        return len(captured)
