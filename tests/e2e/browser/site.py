"""Berth's pages in a real browser: where one looks and clicks."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.support.cluster.seed import PASSWORD
from tests.support.cluster.stack import Stack

# A job starts on a machine that runs other tests as well.
SLOW_MS = 60_000
SESSION = "sessionid"
LINES_SHOWN = """rows => rows.map(row => [
    row.querySelector(".log-number").textContent, row.lastChild.textContent, row.classList.contains("is-mark")
])"""


class Site:
    """One person at one browser."""

    def __init__(self, page: Page, stack: Stack) -> None:
        self.page, self.stack = page, stack

    def open(self, path: str) -> None:
        self.page.goto(f"{self.stack.url}{path}")

    def leave(self) -> None:
        """Forgets who was signed in. From no page: one that is open goes to the log-in by itself when it is told of
        something, amidst what is opened next."""
        self.page.goto("about:blank")
        self.page.context.clear_cookies()

    def sign_in(self, name: str, path: str = "/") -> None:
        """By the form for the first time on a stack; after that the browser has the session that this gave."""
        kept = self.stack.sessions.get(name)
        if kept:
            made = {"name": SESSION, "value": kept, "url": self.stack.url, "httpOnly": True, "sameSite": "Lax"}
            self.page.context.add_cookies([made])  # type: ignore[list-item]  # its type is not for others
        self.open(path)
        if not kept:
            self.page.get_by_label("User name").fill(name)
            self.page.get_by_label("Password").fill(PASSWORD)
            self.page.get_by_role("button", name="Log in").click()
        expect(self.page.get_by_role("navigation", name="Main")).to_be_visible()
        cookies = {cookie["name"]: cookie["value"] for cookie in self.page.context.cookies()}
        self.stack.sessions[name] = cookies[SESSION]

    # ------------------------------------------------------------ submitting

    @property
    def editor(self) -> Locator:
        return self.page.get_by_role("textbox", name="Job file")

    def type_file(self, text: str) -> None:
        self.open("/submit")
        expect(self.page.locator(".cm-editor")).to_be_visible()
        self.replace_file(text)

    def replace_file(self, text: str) -> None:
        """In place of what stands there. Selected by the editor's own key: what `fill` selects in the page the editor
        may undo when it gets the focus, and then the text would be added."""
        self.editor.focus()
        self.editor.press("ControlOrMeta+a")
        self.page.keyboard.insert_text(text)

    def submit(self, text: str) -> int:
        """Submit on the page. Returns the job's id; the page is the job's then."""
        self.type_file(text)
        expect(self.page.get_by_text("This file is valid.")).to_be_visible(timeout=SLOW_MS)
        self.page.get_by_role("button", name="Submit", exact=True).click()
        self.page.wait_for_url(re.compile(r"/jobs/\d+$"))
        return int(self.page.url.rsplit("/", 1)[1])

    # ------------------------------------------------------------ a job's page

    def expect_state(self, *states: str) -> None:
        pattern = re.compile(f"^({'|'.join(states)})$")
        expect(self.page.locator("#job .page-head .state")).to_have_text(pattern, timeout=SLOW_MS)

    def stop_job(self) -> None:
        self.page.get_by_role("link", name="Stop", exact=True).click()
        self.page.get_by_role("dialog").get_by_role("button", name="Stop the job").click()

    @property
    def log(self) -> Locator:
        return self.page.get_by_role("log")

    def expect_log(self, words: str) -> None:
        expect(self.page.locator(".log-state")).to_have_text(re.compile(words), timeout=SLOW_MS)

    def log_lines(self) -> list[str]:
        """Every line that the job wrote, found by scrolling through the log; each must have the next number."""
        seen: dict[int, tuple[str, bool]] = {}
        # A tall window shows the same lines in fewer steps.
        self.log.evaluate("box => { box.style.maxHeight = 'none'; box.style.height = '6000px'; box.scrollTop = 0 }")
        while True:
            self._frame()
            rows = self.page.locator(".log-row").evaluate_all(LINES_SHOWN)
            seen |= {int(number): (text, mark) for number, text, mark in rows}
            if self.log.evaluate("box => box.scrollTop + box.clientHeight >= box.scrollHeight - 1"):
                break
            self.log.evaluate("box => { box.scrollTop += box.clientHeight }")
        assert sorted(seen) == list(range(1, len(seen) + 1))
        return [text for text, mark in (seen[number] for number in sorted(seen)) if not mark]

    def _frame(self) -> None:
        """Until the browser has drawn what was scrolled to."""
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
