"""Reading the logs of a job of many tasks, one that is longer than a browser holds, and one that goes on."""

import re
from operator import itemgetter

import pytest
from playwright.sync_api import Download, Locator, Page, Route, expect

from tests.e2e.browser.looking import DRAWN, NARROW, WIDE
from tests.e2e.browser.site import SLOW_MS, Site
from tests.e2e.browser.walking import Alone
from tests.support.people.person import Person

TASKS = 24
PRINTED = ("hello from {rank}", "done {rank}")
PRINTS = "echo hello from $BERTH_TASK_RANK; echo done $BERTH_TASK_RANK"
FILLER = "the quick brown fox jumps over the lazy dog, and on and on until the line is rather long"
FILLED = f"yes '{FILLER}' | head -n"
BEFORE, BEHIND = 180_000, 60_000
"""Lines around the one that is looked for: a log of 20 MB, of which a browser first gets the newest part."""
LONG = f"echo first; {FILLED} {BEFORE}; echo a NEEDLE; {FILLED} {BEHIND}; echo last"
TWO_LONG = f"echo a needle of $BERTH_TASK_RANK; {FILLED} 20000; echo last of $BERTH_TASK_RANK"


class LogJourneys(Alone):
    """`user` is the person at the browser; `served` the stack."""

    @pytest.fixture(scope="class")
    @classmethod
    def long(cls, user: Person) -> int:
        """A job whose log is longer than what a browser reads at once, all of it known to the portal."""
        job = user.run(LONG, name="long", gpu=0)
        user.wait_for(job, lambda job: job["state"] == "succeeded" and whole(user, job["id"]))
        return job

    def test_of_many_tasks_one_is_chosen_all_are_merged_or_some(self, site: Site, user: Person) -> None:
        job = user.run(PRINTS, name="many", instances=TASKS, gpu=0, memory_mb=16, gang=False)
        user.wait(job, "succeeded", deadline_s=180)
        page = site.page
        site.open(f"/jobs/{job}")
        site.expect_log("complete")
        page.get_by_label("Filter the tasks").fill("worker/21")
        expect(page.locator(".task:visible")).to_have_count(1)
        page.get_by_label("Filter the tasks").press("Enter")
        expect(page.get_by_role("heading", name="worker/21")).to_be_visible()
        site.expect_log("complete")
        assert site.log_lines() == [line.format(rank=21) for line in PRINTED]
        page.keyboard.press("Escape")
        page.get_by_label("Filter the tasks").fill("")
        site.log.focus()
        page.keyboard.press("]")
        expect(page.get_by_role("heading", name="worker/22")).to_be_visible()
        # what stands over the log belongs to this one alone
        times = page.get_by_role("button", name="Times")
        for pressed in ("true", "false"):
            times.click()
            expect(times).to_have_attribute("aria-pressed", pressed)

        self.choose_while_the_page_follows(page, page.get_by_role("link", name="All logs"))
        expect(page.get_by_role("heading", name="All tasks")).to_be_visible()
        site.expect_log("complete")
        expect(page.locator(".log-foot")).to_contain_text(f"{len(PRINTED) * TASKS + TASKS} lines")
        search = page.get_by_role("searchbox", name="Search the log")
        search.fill("done 2")
        expect(page.locator("[data-log-found]")).to_have_text("– / 5")
        search.press("Enter")
        expect(site.log.locator(".is-current")).to_contain_text("worker/2")
        assert set(merged(downloaded(page, "Download as one"))) == {
            (f"worker/{rank}", line.format(rank=rank)) for rank in range(TASKS) for line in PRINTED
        }

        for rank in (3, 23):
            page.get_by_role("checkbox", name=f"worker/{rank}", exact=True).check()
        page.get_by_role("button", name="Selected logs").click()
        site.expect_log("complete")
        shown = [(row.split(None, 1)[0], row.split(None, 1)[1].strip()) for row in rows(site)]
        assert sorted(shown) == sorted(
            (f"worker/{rank}", line.format(rank=rank)) for rank in (3, 23) for line in PRINTED
        )
        as_one = merged(downloaded(page, "Download as one"))
        # Lines of two tasks in one millisecond may stand in either order.
        assert sorted(as_one, key=itemgetter(0)) == sorted(shown, key=itemgetter(0))
        self.on_a_phone(site, job)

    def choose_while_the_page_follows(self, page: Page, link: Locator) -> None:
        """What the page asked for by itself before the choice, and is answered late, does not undo it."""
        held: list[Route] = []
        chosen = page.url
        page.route(chosen, lambda route: held.append(route))
        with page.expect_request(chosen):
            page.evaluate("document.getElementById('job').dispatchEvent(new Event('berth:refresh'))")
        with page.expect_response("**?log=all"):
            link.click()
        expect(page.get_by_role("heading", name="All tasks")).to_be_visible()
        with page.expect_event("requestfinished", lambda request: request.url == chosen):
            held[0].continue_()
        page.evaluate(DRAWN)
        page.unroute(chosen)

    def on_a_phone(self, site: Site, job: int) -> None:
        """The log is not behind all the tasks, and where it is out of sight it is gone to."""
        page = site.page
        page.set_viewport_size(NARROW)
        site.open(f"/jobs/{job}")
        page.locator(".task").nth(2).click()
        expect(page.get_by_role("heading", name="worker/2", exact=True)).to_be_in_viewport()
        page.set_viewport_size(WIDE)

    def test_a_long_log_is_searched_gone_through_and_downloaded_whole(self, site: Site, long: int) -> None:
        page, found = site.page, site.page.locator("[data-log-found]")
        site.open(f"/jobs/{long}")
        site.expect_log("complete")
        expect(last_row(site)).to_contain_text("last")
        search = page.get_by_role("searchbox", name="Search the log")
        search.fill("needle")
        expect(found).to_have_text("– / 0 here")
        search.press("Enter")
        expect(site.log.locator(".is-current")).to_contain_text("a NEEDLE", timeout=SLOW_MS)
        expect(found).to_have_text("1 / 1 here · 1 line in all")
        site.expect_log("an earlier part")
        where = page.locator("[data-log-where]")
        expect(where).to_contain_text(re.compile(r"^7[45] %"))

        search.fill("nowhere to be found")
        search.press("Enter")
        expect(found).to_have_text("– / 0 here · nowhere else", timeout=SLOW_MS)
        page.get_by_role("button", name="Beginning").click()
        expect(where).to_contain_text("0 %")
        expect(site.log.locator(".log-row").nth(1)).to_contain_text("first")
        page.get_by_role("slider", name="Place in the log").fill("500")
        expect(where).to_contain_text("50 %")
        page.set_viewport_size(NARROW)
        assert page.evaluate("document.documentElement.scrollWidth") == NARROW["width"]
        page.set_viewport_size(WIDE)
        page.get_by_role("button", name="Newest lines").click()
        expect(last_row(site)).to_contain_text("last")
        with page.expect_download() as coming:
            page.get_by_role("link", name="Download", exact=True).click()
        lines = coming.value.path().read_text().splitlines()
        assert coming.value.suggested_filename == "long-worker-0.1.log"
        assert [lines[-1], lines[-BEHIND - 2], lines[-BEHIND - BEFORE - 3]] == ["last", "a NEEDLE", "first"]

    def test_a_search_in_a_long_log_is_stopped(self, site: Site, long: int) -> None:
        """While the portal does not answer: what comes then leads nowhere."""
        page = site.page
        site.open(f"/jobs/{long}")
        site.expect_log("complete")
        held: list[object] = []
        page.route("**/logs/search?*", lambda route: held.append(route))
        search = page.get_by_role("searchbox", name="Search the log")
        search.fill("needle")
        search.press("Enter")
        expect(page.locator("[data-log-found]")).to_contain_text("searching, 0 % of the log")
        page.get_by_role("button", name="Stop searching").click()
        expect(page.locator("[data-log-found]")).to_have_text("– / 0 here")
        expect(page.get_by_role("button", name="Stop searching")).to_be_hidden()
        expect(last_row(site)).to_contain_text("last")
        assert len(held) == 1

    def test_two_long_logs_as_one_are_read_back_until_the_text_is_found(self, site: Site, user: Person) -> None:
        job = user.run(TWO_LONG, name="two-long", instances=2)
        user.wait(job, "succeeded")
        page, found = site.page, site.page.locator("[data-log-found]")
        site.open(f"/jobs/{job}?log=all")
        site.expect_log("complete")
        expect(page.get_by_text("There are lines before these.")).to_be_visible()
        search = page.get_by_role("searchbox", name="Search the log")
        search.fill("needle of")
        search.press("Enter")
        expect(site.log.locator(".is-current")).to_contain_text("a needle of", timeout=SLOW_MS)
        search.fill("nowhere to be found")
        search.press("Enter")
        expect(found).to_have_text(re.compile(r"– / 0( · nowhere else)?$"), timeout=SLOW_MS)
        expect(page.locator(".log-foot")).to_contain_text("40,006 lines")

    def test_a_log_that_goes_on_is_followed_let_go_and_taken_up_again(self, site: Site, user: Person) -> None:
        go = "while [ ! -e $BERTH_JOB_DIR/go ]; do sleep 0.05; done"
        more = "i=0; while [ $i -lt 300 ]; do echo {word} $i; i=$((i+1)); done"
        again = go.replace("/go", "/again")
        job = user.run(
            more.format(word="early"), go, more.format(word="later"), again, "echo over", name="followed", gpu=0
        )
        page, follow = site.page, site.page.get_by_role("button", name="Follow")
        site.open(f"/jobs/{job}")
        expect(last_row(site)).to_contain_text("early 299", timeout=SLOW_MS)
        expect(follow).to_have_attribute("aria-pressed", "true")
        foot = page.locator(".log-foot").evaluate("foot => innerHeight - foot.getBoundingClientRect().bottom")
        assert foot >= 0, f"the log ends {-foot} px below the window"
        site.log.hover()
        page.mouse.wheel(0, -600)
        expect(follow).to_have_attribute("aria-pressed", "false")
        top = first_seen(site)
        self.touch(user, "go")
        expect(page.locator(".log-foot")).to_contain_text("601 lines", timeout=SLOW_MS)
        assert first_seen(site) == top, "who reads is left where they are"
        follow.click()
        expect(follow).to_have_attribute("aria-pressed", "true")
        expect(last_row(site)).to_contain_text("later 299")
        page.get_by_role("button", name="Times").click()
        at = site.log.locator("time").last
        expect(at).to_be_visible()
        assert re.fullmatch(r"\d\d:\d\d:\d\d(\.\d+)?", at.inner_text().strip())
        page.get_by_role("button", name="Times").click()
        self.touch(user, "again")
        expect(last_row(site)).to_contain_text("over", timeout=SLOW_MS)
        site.expect_log("complete")

    def test_two_logs_as_one_go_on_where_no_websocket_gets_through(self, site: Site, user: Person) -> None:
        go = "while [ ! -e $BERTH_JOB_DIR/go ]; do sleep 0.05; done"
        job = user.run("echo early $BERTH_TASK_RANK", go, "echo late $BERTH_TASK_RANK", name="asked", instances=2)
        user.wait(job, "running")
        site.page.route_web_socket("**/ws/**", lambda socket: socket.close())
        site.open(f"/jobs/{job}?log=all")
        expect(site.page.get_by_role("heading", name="All tasks")).to_be_visible()
        site.expect_log("no websocket gets through: asks every 3 s")
        for rank in (0, 1):
            expect(site.log).to_contain_text(f"early {rank}", timeout=SLOW_MS)
        for link in site.page.get_by_role("navigation", name="Main").get_by_role("link").all():
            link.click(trial=True)  # what is said of it covers nothing
        self.touch(user, "go", "asked")
        site.expect_log("complete")
        told = sorted(row.split(None, 1)[1].strip() for row in rows(site))
        assert told == ["early 0", "early 1", "late 0", "late 1"]

    def test_a_bar_moves_before_its_line_has_an_end(self, site: Site, user: Person) -> None:
        step = "printf '\\r%s: [%-3s]' epoch {done}; while [ ! -e $BERTH_JOB_DIR/{done} ]; do sleep 0.05; done"
        job = user.run(*(step.format(done="=" * count) for count in (1, 2, 3)), "echo", name="bar", gpu=0)
        site.open(f"/jobs/{job}")
        for done in ("=", "==", "==="):
            expect(last_row(site)).to_contain_text(f"epoch: [{done:3}]", timeout=SLOW_MS)
            self.touch(user, done, "bar")
        site.expect_log("complete")
        assert site.log_lines() == ["epoch: [===]"]

    def touch(self, user: Person, name: str, job: str = "followed") -> None:
        """A file in the job's folder, for which the job waits."""
        (folder,) = user.stack.jobs_root.glob(f"*/{job}-*")
        (folder / name).touch()


def whole(user: Person, job: int) -> bool:
    (run,) = user.task_attempts(job)
    asked = f"/jobs/{job}/logs/search?task_attempt={run['id']}&text=x&limit=0&way=backward"
    return bool(user.get(asked)["log_end"] > (BEFORE + BEHIND) * len(FILLER))


def rows(site: Site) -> list[str]:
    """What stands in the log's lines, without Berth's own."""
    return site.log.locator(".log-row:not(.is-mark)").all_inner_texts()


def last_row(site: Site) -> Locator:
    return site.log.locator(".log-row").last


def first_seen(site: Site) -> float:
    return float(site.log.evaluate("box => box.scrollTop"))


def downloaded(page: Page, name: str) -> Download:
    with page.expect_download() as coming:
        page.get_by_role("link", name=name, exact=True).click()
    return coming.value


def merged(download: Download) -> list[tuple[str, str]]:
    """(task, line) of each line but Berth's own."""
    parts = [re.split(r" +\| ", line.split(" ", 1)[1], maxsplit=1) for line in download.path().read_text().splitlines()]
    return [(name.strip(), text) for name, text in parts if "plain process" not in text]
