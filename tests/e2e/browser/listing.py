"""What is done in the lists: the queue of a team put in order by its lead, and jobs found, kept, tagged and stopped."""

import re

from playwright.sync_api import Locator, Page, expect

from tests.e2e.browser.looking import NARROW, WIDE
from tests.e2e.browser.site import SLOW_MS, Site
from tests.e2e.browser.walking import Together
from tests.support.cluster.stack import Stack
from tests.support.people.person import Person

ENDS = "true"
GOES_ON = "sleep 600"
SWEEP = ("sweep-a", "sweep-b", "sweep-c")


class ListJourneys(Together):
    """`user` leads research, and bob is in it; `served` is a stack of one node with four GPUs."""

    def test_a_lead_orders_the_queue_by_dragging_and_by_keyboard_and_jobs_start_in_that_order(
        self, page: Page, served: Stack, user: Person, bob: Person
    ) -> None:
        (share,) = user.get(f"/virtual-clusters/{user.vc}")["gpus"]
        quota = share["quota"]
        held = user.run(GOES_ON, name="holds-all", gpu=quota)
        user.wait(held, "running")
        jobs = {}
        for name, owner in {"one": user, "two": bob, "three": bob}.items():
            jobs[name] = owner.run(GOES_ON, name=name, gpu=quota)
            owner.wait_for(jobs[name], lambda job: job["waiting"] and job["waiting"]["code"])
        site = Site(page, served)
        site.sign_in(user.name, "/queue")
        self.expect_order(page, "one", "two", "three")
        self.drag(page, self.row(page, "three"), self.row(page, "one"))
        expect(page.get_by_role("region", name="Messages")).to_contain_text(
            "bob/three#1 went from place 3 to 1 of the 3"
        )
        self.expect_order(page, "three", "one", "two")
        up = page.get_by_role("button", name="bob/two#1 up", exact=True)
        up.focus()
        page.keyboard.press("Enter")
        self.expect_order(page, "three", "two", "one")
        expect(up).to_be_focused()
        page.keyboard.press("Enter")
        self.expect_order(page, "two", "three", "one")
        expect(up).to_be_disabled()
        expect(self.row(page, "two")).to_be_focused()

        site.leave()
        site.sign_in("bob", "/queue")
        self.expect_order(page, "two", "three", "one")
        expect(self.row(page, "two")).to_contain_text("placed by a lead")
        expect(page.locator("[data-grip], .place button")).to_have_count(0)
        refused = bob.http.post(f"/jobs/{jobs['one']}/place", json={"first": True})
        assert (refused.status_code, user.job(jobs["one"])["waiting"]["place"]) == (403, 3)

        user.stop(held)
        bob.wait(jobs["two"], "running")
        self.expect_order(page, "three", "one")

    def row(self, page: Page, name: str) -> Locator:
        return page.locator("#queue tbody tr").filter(has_text=f"/{name}#1")

    def expect_order(self, page: Page, *names: str) -> None:
        wanted = [re.compile(rf"/{name}#1") for name in names]
        expect(page.locator("#queue tbody tr")).to_have_text(wanted, timeout=SLOW_MS)

    def drag(self, page: Page, row: Locator, before: Locator) -> None:
        """By its grip to right above another row."""
        grip, there = row.locator("[data-grip]").bounding_box(), before.bounding_box()
        assert grip
        assert there
        page.mouse.move(grip["x"] + grip["width"] / 2, grip["y"] + grip["height"] / 2)
        page.mouse.down()
        page.mouse.move(grip["x"], there["y"] + there["height"] / 4, steps=4)
        expect(before).to_have_class(re.compile("drop-before"))
        page.mouse.up()

    def test_jobs_are_found_kept_as_a_view_tagged_and_stopped_together(
        self, page: Page, served: Stack, user: Person, bob: Person
    ) -> None:
        site = Site(page, served)
        site.sign_in(user.name, "/jobs")
        over = user.run(ENDS, name="sweep-over", gpu=0)
        user.wait(over, "succeeded")
        jobs = {name: user.run(GOES_ON, name=name, gpu=1, cpu=1) for name in SWEEP}
        bob.run(GOES_ON, name="sweep-bob", gpu=1)
        rows = page.locator("#jobs tbody tr")

        page.locator("input[name=text]").fill("sweep-")
        page.locator("input[name=text]").press("Enter")
        expect(rows).to_have_count(5)
        page.get_by_label("Only mine").check()
        expect(rows).to_have_count(4)
        page.locator("select[name=sort]").select_option(label="By name")
        expect(rows).to_have_text([re.compile(rf"alice/{name}#") for name in (*SWEEP, "sweep-over")])
        page.locator("summary").filter(has_text="State").click()
        page.get_by_role("checkbox", name="Succeeded").check()
        page.get_by_role("button", name="Apply").first.click()
        expect(rows).to_have_count(1)
        page.locator("summary").filter(has_text="State").click()
        page.get_by_role("checkbox", name="Succeeded").uncheck()
        page.get_by_role("button", name="Apply").first.click()
        expect(rows).to_have_count(4)

        page.locator("summary").filter(has_text="Save this view").click()
        page.get_by_label("Its name").fill("sweeps")
        page.get_by_role("button", name="Save", exact=True).click()
        views = page.get_by_role("navigation", name="Views")
        expect(views.get_by_role("link", name="sweeps")).to_have_attribute("aria-current", "page")
        site.open("/jobs")
        views.get_by_role("link", name="sweeps").click()
        expect(rows).to_have_count(4)
        expect(page.locator("input[name=text]")).to_have_value("sweep-")
        page.set_viewport_size(NARROW)
        expect(page.locator("input[name=text]")).to_be_hidden()
        page.locator("summary").filter(has_text="Filters (2)").click()
        expect(page.locator("input[name=text]")).to_be_visible()
        page.set_viewport_size(WIDE)

        self.pick(page, "sweep-a", "sweep-b")
        expect(page.get_by_text("2 chosen")).to_be_visible()
        bulk = page.locator("#bulk")
        bulk.locator("input[name=tag]").fill("study")
        bulk.get_by_role("button", name="Add the tag").click()
        expect(page.get_by_role("row").filter(has_text="done")).to_have_count(2)
        page.get_by_role("link", name="Back to the jobs").click()
        expect(rows.filter(has_text="study")).to_have_count(2)

        self.pick(page, "sweep-a", "sweep-b", "sweep-over")
        page.locator("#bulk").get_by_role("button", name="Stop").click()
        expect(page.get_by_role("heading", name="Stop these 3 jobs?")).to_be_visible()
        page.get_by_role("button", name="Stop them").click()
        expect(page.get_by_role("row").filter(has=page.get_by_text("asked to end", exact=True))).to_have_count(2)
        expect(page.get_by_role("row").filter(has_text="sweep-over")).to_contain_text("is over already: it succeeded")
        page.get_by_role("link", name="Back to the jobs").click()
        for name in ("sweep-a", "sweep-b"):
            expect(page.locator(f"#job-{jobs[name]}")).to_contain_text("Stopped", timeout=SLOW_MS)
        expect(page.locator(f"#job-{jobs['sweep-c']}")).to_contain_text("Running", timeout=SLOW_MS)
        user.stop(jobs["sweep-c"])
        expect(page.locator(f"#job-{jobs['sweep-c']}")).to_contain_text("Stopped", timeout=SLOW_MS)

        page.get_by_role("button", name="Remove the view sweeps").click()
        expect(views.get_by_role("link", name="sweeps")).to_have_count(0)

    def pick(self, page: Page, *names: str) -> None:
        for name in names:
            page.get_by_role("checkbox", name=f"alice/{name}#1", exact=True).check()
