"""The user guide as the portal shows it: Markdown files of ``docs/``, without any raw HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_noop
from markdown_it import MarkdownIt
from markdown_it.token import Token

from portal.common.errors import NotFound
from portal.common.picture_size import picture_size


@dataclass(frozen=True, slots=True)
class Document:
    """A page of the guide: its name in the URL, its file under ``docs/``, and its label in lists."""

    name: str
    file: str
    label: str

    @property
    def for_administrators(self) -> bool:
        return self.file.startswith("admin/")


DOCUMENTS = (
    Document("guide", "user/guide.md", gettext_noop("Using Berth")),
    Document("pages", "user/pages.md", gettext_noop("The pages")),
    Document("job-page", "user/job-page.md", gettext_noop("The page of a job")),
    Document("training", "user/training.md", gettext_noop("Following a training")),
    Document("job-file", "user/job-file.md", gettext_noop("The job file")),
    Document("waiting", "user/waiting.md", gettext_noop("Why a job waits")),
    Document("scheduling", "scheduling.md", gettext_noop("How scheduling works")),
    Document("sharing", "sharing.md", gettext_noop("GPUs that are lent by their holders")),
    Document("troubleshooting", "user/troubleshooting.md", gettext_noop("Troubleshooting jobs")),
    Document("command-line", "user/command-line.md", gettext_noop("The command line")),
    Document("ssh", "user/ssh.md", gettext_noop("SSH into jobs")),
    Document("python-client", "user/python-client.md", gettext_noop("The Python client")),
    Document("api", "user/api.md", gettext_noop("REST API")),
    Document("api-watching", "user/api-watching.md", gettext_noop("REST API: watching jobs")),
    Document("openpai", "user/openpai.md", gettext_noop("For users of OpenPAI")),
    Document("install", "admin/install.md", gettext_noop("Installing Berth")),
    Document("servers", "admin/servers.md", gettext_noop("GPU servers")),
    Document("accounts", "admin/accounts.md", gettext_noop("Accounts and access")),
    Document("quotas", "admin/quotas.md", gettext_noop("Virtual clusters and quotas")),
    Document("storages", "admin/storages.md", gettext_noop("Storages")),
    Document("images", "admin/images.md", gettext_noop("Images, code and disk space")),
    Document("usage", "admin/usage.md", gettext_noop("Usage and idle GPUs")),
    Document("alerts", "admin/alerts.md", gettext_noop("Alerts and metrics")),
    Document("webhook", "admin/webhook.md", gettext_noop("Webhook")),
    Document("backup", "admin/backup.md", gettext_noop("Backup and restore")),
    Document("upgrades", "admin/upgrades.md", gettext_noop("Upgrading")),
    Document("processes", "admin/processes.md", gettext_noop("Running the portal")),
    Document("settings", "admin/settings.md", gettext_noop("Settings")),
    Document("security", "admin/security.md", gettext_noop("Security")),
    Document("admin-api", "admin/api.md", gettext_noop("REST API for administrators")),
    Document("portal-trouble", "admin/troubleshooting-portal.md", gettext_noop("Troubleshooting the portal")),
    Document("server-trouble", "admin/troubleshooting-servers.md", gettext_noop("Troubleshooting GPU servers")),
)
_BY_FILE = {one.file: one for one in DOCUMENTS}


@dataclass(frozen=True, slots=True)
class Heading:
    """A section of a document, with the anchor that links to it."""

    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class Guide:
    """A document as HTML; ``sections`` are its second-level headings."""

    title: str
    html: SafeString
    sections: tuple[Heading, ...]


def guide_read(*, name: str) -> Guide:
    """Renders the page of that name. Raises NotFound if there is none, or its file was not installed."""
    document = next((one for one in DOCUMENTS if one.name == name), None)
    path = settings.DOCS_DIR / document.file if document else None
    if document is None or path is None or not path.is_file():
        raise NotFound("page of the guide", name)
    return _rendered(path, path.stat().st_mtime, document.file)


@lru_cache(maxsize=32)
def _rendered(path: Path, changed: float, file: str) -> Guide:
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    for rule, made in _RULES.items():
        markdown.add_render_rule(rule, made)
    tokens = markdown.parse(path.read_text(encoding="utf-8"))
    headings = list(_anchored(tokens))
    for token in tokens:
        _pointed(token.children or (), PurePosixPath(file).parent)
    title = next((heading.text for tag, heading in headings if tag == "h1"), "")
    html = SafeString(markdown.renderer.render(tokens, markdown.options, {}))
    return Guide(title, html, tuple(heading for tag, heading in headings if tag == "h2"))


def _anchored(tokens: Sequence[Token]) -> Iterable[tuple[str, Heading]]:
    """The headings, each given the anchor that GitHub would give it."""
    seen: dict[str, int] = {}
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            parts = tokens[place + 1].children or []
            text = "".join(part.content for part in parts if part.type in {"text", "code_inline"})
            anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            seen[anchor] = seen.get(anchor, -1) + 1
            anchor = f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor
            token.attrSet("id", anchor)
            yield token.tag, Heading(anchor, text)


def _pointed(tokens: Sequence[Token], folder: PurePosixPath) -> None:
    """Rewrites links to other documents to their pages here, with their titles where the text is the file name, and
    images to static files. Links to what is not shown here are dropped."""
    for place, token in enumerate(tokens):
        if token.type == "link_open":
            href = str(token.attrGet("href"))
            token.attrs = _link(href, folder)
            document = _BY_FILE.get(normpath(folder / href))
            if document and tokens[place + 1].content == href:
                tokens[place + 1].content = document.label
        elif token.type == "image":
            token.meta["file"] = normpath(folder / str(token.attrGet("src")))


def _link(href: str, folder: PurePosixPath) -> dict[str, str | int | float]:
    file, mark, anchor = href.partition("#")
    if href.startswith(("https://", "http://")):
        return {"href": href, "rel": "noopener noreferrer"}
    if not file:
        return {"href": href}
    document = _BY_FILE.get(normpath(folder / file))
    return {"href": reverse("help", args=[document.name]) + mark + anchor} if document else {}


def _code(_self: Any, tokens: Sequence[Token], place: int, _options: Any, _env: Any) -> str:
    """A code block that scrolls by itself on narrow screens, also by keyboard."""
    return f'<pre tabindex="0"><code>{escape(tokens[place].content)}</code></pre>\n'


def _picture(_self: Any, tokens: Sequence[Token], place: int, _options: Any, _env: Any) -> str:
    """An image with its size, so that the layout does not shift; with a dark variant where there is one."""
    file, words = PurePosixPath(tokens[place].meta["file"]), tokens[place].content
    night = file.with_stem(f"{file.stem}-dark")
    if not (settings.DOCS_DIR / night).is_file():
        return _shown(file, words)
    return _shown(file, words, "by-day") + _shown(night, words, "by-night")


def _shown(file: PurePosixPath, words: str, when: str = "") -> str:
    size = picture_size(settings.DOCS_DIR / file)
    measures = format_html(' width="{}" height="{}"', *size) if size else ""
    styles = " ".join([*([when] if when else []), *(["tall"] if size and size[1] > size[0] else [])])
    told = format_html(' class="{}"', styles) if styles else ""
    address = f"{settings.STATIC_URL}docs/{file}"
    return format_html('<img src="{}" alt="{}" loading="lazy"{}{}>', address, words, measures, told)


_RULES = {
    "image": _picture,
    "fence": _code,
    "code_block": _code,
    "table_open": lambda *_: '<div class="table-responsive" tabindex="0"><table class="table">\n',
    "table_close": lambda *_: "</table></div>\n",
}
