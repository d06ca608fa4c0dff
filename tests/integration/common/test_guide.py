"""The user guide in the portal: every page of it opens, its links and pictures lead somewhere, text is text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from PIL import Image

from portal.common.guide import DOCUMENTS, guide_read
from tests.support.people.cast import person
from tests.support.people.pages import Browser

HOSTILE = """# Title <script>alert(1)</script>
<img src=x onerror=alert(1)>
[click](javascript:alert(1)) [out](../secret.md) [home](guide.md#a-b) [away](https://example.org)

| a |
| ---: |
| b |

```
echo "</code><script>alert(1)</script>" && <b>
```
"""


@pytest.mark.django_db
def test_every_page_of_the_guide_opens_and_its_links_and_pictures_lead_somewhere() -> None:
    browser = Browser(person("reader"))
    pages = {f"/help/{one.name}": browser.get(f"/help/{one.name}") for one in DOCUMENTS}
    anchors = {path: set(re.findall(r' id="([^"]+)"', page.html)) for path, page in pages.items()}
    for path, page in pages.items():
        assert page.status == 200
        for href in page.attribute("a", "href"):
            there, _, anchor = href.partition("#")
            if there.startswith("/help/") or (not there and anchor and anchor != "main"):
                assert not anchor or anchor in anchors[there or path], f"{path}: {href}"
        for picture in page.attribute("img", "src"):
            if picture.startswith("/static/docs/"):
                assert (settings.DOCS_DIR / picture.removeprefix("/static/docs/")).is_file(), f"{path}: {picture}"
        assert "style=" not in page.html
    assert browser.get("/help").links["User guide"] == "/help"
    assert browser.get("/help/nothing").status == 404


def test_a_picture_is_the_dark_one_in_the_dark_and_has_its_room_before_it_comes(tmp_path: Path, settings: Any) -> None:
    settings.DOCS_DIR = tmp_path
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "guide.md").write_text("![Day](d.webp) ![Chart](../chart.png) ![None](none.png)")
    Image.new("RGB", (320, 200)).save(tmp_path / "user" / "d.webp", quality=60)
    Image.new("RGB", (321, 201)).save(tmp_path / "user" / "d-dark.webp", quality=60)
    Image.new("RGB", (40, 50)).save(tmp_path / "chart.png")
    assert re.findall("<img [^>]+>", guide_read(name="guide").html) == [
        '<img src="/static/docs/user/d.webp" alt="Day" loading="lazy" width="320" height="200" class="by-day">',
        '<img src="/static/docs/user/d-dark.webp" alt="Day" loading="lazy" width="321" height="201" class="by-night">',
        '<img src="/static/docs/chart.png" alt="Chart" loading="lazy" width="40" height="50" class="tall">',
        '<img src="/static/docs/user/none.png" alt="None" loading="lazy">',
    ]


def test_what_stands_in_a_document_is_text_and_links_lead_only_to_what_is_shown(tmp_path: Path, settings: Any) -> None:
    settings.DOCS_DIR = tmp_path
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "guide.md").write_text(HOSTILE)
    html = guide_read(name="guide").html
    assert "<script" not in html
    assert "<img" not in html
    assert set(re.findall(r'href="([^"]*)"', html)) == {"/help/guide#a-b", "https://example.org"}
