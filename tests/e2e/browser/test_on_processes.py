"""The browser's journeys on SQLite and the process runtime, as `make demo` starts them."""

import re
from collections.abc import Iterator
from itertools import count

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser.administering import AdministeringJourneys
from tests.e2e.browser.journeys import BrowserJourneys
from tests.e2e.browser.listing import ListJourneys
from tests.e2e.browser.looking import looked_at
from tests.e2e.browser.managing import ManagingJourneys
from tests.e2e.browser.reading_logs import LogJourneys
from tests.e2e.browser.site import SLOW_MS, Site
from tests.e2e.browser.submitting import SubmitJourneys
from tests.support.cluster.stack import Stack
from tests.support.people.person import Person, alice
from tests.support.run.waiting import wait_until

FILES = "mkdir -p $BERTH_JOB_DIR/out; printf 'loss 0.25\\n' > $BERTH_JOB_DIR/out/result.txt; touch $BERTH_JOB_DIR/ready"
HOSTILE = (
    r"printf '\033]0;owned\007\033]2;owned\007\033]52;c;b3duZWQ=\007\033[14t\033[21t"
    r"\033]8;;https://evil.example/\033\\press\033]8;;\033\\ \033]10;?\007https://evil.example/\n'; echo done-$((1+1))"
)


@pytest.fixture(scope="module")
def served(embedded_stack: Stack) -> Stack:
    return embedded_stack


@pytest.fixture(scope="module")
def user(served: Stack) -> Person:
    return alice(served)


class TestOnProcesses(BrowserJourneys):
    """Every journey."""


class TestAdministering(AdministeringJourneys):
    """Those of administrators with accounts and means, and of everybody with their account."""


class TestManaging(ManagingJourneys):
    """Those of leads and administrators."""


class TestLogs(LogJourneys):
    """Of many tasks, long ones, and ones that go on."""


class TestLists(ListJourneys):
    """The queue of a team, and the list of jobs."""


class TestSubmitting(SubmitJourneys):
    """Templates, code, parameters, secrets, and what comes of it."""


@pytest.fixture(scope="module")
def job(user: Person) -> Iterator[int]:
    made = user.run(FILES, "sleep 600", name="sections")
    user.wait(made, "running")
    yield made
    user.stop(made)


class TestSections:
    """Charts, files and terminal of a running job."""

    @pytest.fixture
    def site(self, page: Page, served: Stack, user: Person) -> Site:
        made = Site(page, served)
        made.sign_in(user.name)
        return made

    def test_charts_appear_by_themselves_and_a_part_of_the_time_is_chosen_by_dragging(
        self, site: Site, job: int
    ) -> None:
        page = site.page
        site.open(f"/jobs/{job}/charts")
        chart = page.locator("#chart-gpu_utilisation")
        over = chart.locator(".u-over")
        expect(over).to_be_visible(timeout=SLOW_MS)
        assert looked_at(page, "charts") == []
        name = chart.get_by_role("button", name="GPU")
        name.click()
        expect(name).to_have_attribute("aria-pressed", "false")
        name.click()
        box = over.bounding_box()
        assert box
        page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40, steps=3)
        page.mouse.up()
        page.wait_for_url("**/charts?from=*")
        expect(page.locator("#charts")).to_have_attribute("data-hx-get", re.compile(r"/charts/now\?from=\d+&to=\d+"))
        page.get_by_role("link", name="Whole run").click()
        page.wait_for_url("**/charts")
        expect(over).to_be_visible()

    def test_a_file_is_found_read_and_downloaded(self, site: Site, job: int) -> None:
        page = site.page
        site.open(f"/jobs/{job}")
        page.get_by_role("link", name="Files", exact=True).click()
        page.get_by_role("link", name="out/", exact=True).click()
        assert looked_at(page, "files") == []
        page.get_by_role("link", name="result.txt", exact=True).click()
        expect(page.get_by_label("Text of result.txt")).to_have_text("loss 0.25\n")
        with page.expect_download() as coming:
            page.get_by_role("link", name="Download", exact=True).click()
        assert coming.value.suggested_filename == "result.txt"
        assert coming.value.path().read_text() == "loss 0.25\n"

    def test_what_a_program_prints_does_not_leave_the_terminal(self, site: Site, job: int) -> None:
        page = site.page
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        site.open(f"/jobs/{job}/terminal")
        page.evaluate("navigator.clipboard.writeText('mine')")
        title = page.title()
        said = page.locator("[data-terminal-said]")
        page.get_by_role("button", name="Open a terminal").click()
        expect(said).to_contain_text("Open.", timeout=SLOW_MS)
        screen = page.locator(".xterm-rows")
        page.keyboard.insert_text(HOSTILE)
        page.keyboard.press("Enter")
        expect(screen).to_contain_text("done-2", timeout=SLOW_MS)
        expect(screen).to_contain_text("press https://evil.example/")
        link = screen.get_by_text("press https").last.bounding_box()
        assert link
        for place in (10, 60):
            page.mouse.click(link["x"] + place, link["y"] + 5)
        assert (page.title(), page.evaluate("navigator.clipboard.readText()")) == (title, "mine")
        assert len(page.context.pages) == 1
        assert page.locator(".terminal-box a").count() == 0
        text = screen.inner_text()
        assert "owned" not in text.rpartition("done-$")[2], "nothing was answered to the shell"
        assert "rgb:" not in text

        assert looked_at(page, "terminal") == []
        page.locator(".xterm-helper-textarea").focus()
        wide = self.columns(page, "wide")
        page.set_viewport_size({"width": 700, "height": 900})
        tries = count()  # the browser tells of the new size with its next frame, and what is typed may come before
        wait_until(lambda: self.columns(page, f"narrow{next(tries)}") < wide, "the shell to know its width")
        page.keyboard.press("Shift+Escape")
        expect(page.get_by_role("button", name="Close")).to_be_focused()
        page.locator(".xterm-helper-textarea").focus()
        page.keyboard.type("exit 3")
        page.keyboard.press("Enter")
        expect(said).to_have_text("The shell ended with exit status 3. The task goes on.")
        expect(page.get_by_role("button", name="Open a terminal")).to_be_visible()

    def columns(self, page: Page, word: str) -> int:
        """How wide the program takes its terminal to be."""
        page.keyboard.insert_text(f"echo {word}-$(stty size)-{word}")
        page.keyboard.press("Enter")
        answer = re.compile(rf"{word}-\d+\s+(\d+)-{word}")
        expect(page.locator(".xterm-rows")).to_contain_text(answer, timeout=SLOW_MS)
        found = answer.search(page.locator(".xterm-rows").inner_text())
        assert found
        return int(found[1])
