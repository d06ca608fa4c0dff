"""What a team's lead and an administrator do in the browser."""

import re
from dataclasses import replace

from playwright.sync_api import Page, expect

from tests.e2e.browser.looking import PHONE_AT_NIGHT, looked_at
from tests.e2e.browser.site import SLOW_MS, Site
from tests.e2e.browser.walking import Together
from tests.support.cluster.stack import Stack
from tests.support.people.person import Person

SECRET = "whsec_eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHg="
PEOPLE = (
    "username,password,email,virtual_clusters\nmei,staple-horse-7,mei@example.org,research\nli,staple-horse-8,,vision\n"
)
SAVES_WHEN_TOLD = (
    "touch $BERTH_JOB_DIR/saves-when-told; "
    "sh -c 'trap \"until [ -e $BERTH_JOB_DIR/saved ]; do sleep 0.1; done; exit 0\" TERM; while :; do sleep 0.1; done'"
)


class ManagingJourneys(Together):
    """`user` leads research, and bob is in it; root administers; `served` is a stack of one node named `here`."""

    def test_a_lead_sees_who_holds_what_raises_a_job_and_sets_members_and_limits(
        self, page: Page, served: Stack, user: Person, bob: Person
    ) -> None:
        (share,) = user.get(f"/virtual-clusters/{user.vc}")["gpus"]
        held = user.run("sleep 600", name="holding", gpu=share["quota"])
        user.wait(held, "running")
        early, late = (bob.run("sleep 600", name=name) for name in ("early", "late"))
        for job in (early, late):
            bob.wait_for(job, lambda job: job["waiting"] and job["waiting"]["code"])
        site = Site(page, served)
        site.sign_in(user.name)
        page.get_by_role("link", name=user.vc).first.click()
        shares = page.get_by_role("region", name="Fair share")
        expect(shares.get_by_role("row").filter(has_text="bob")).to_contain_text("2")
        page.get_by_role("navigation", name="Main").get_by_role("link", name="Queue").click()
        page.get_by_role("button", name="bob/late#1 to the front").click()
        first = page.locator("#queue tbody tr").first
        expect(first).to_contain_text("placed by a lead bob/late#1", timeout=SLOW_MS)
        first.get_by_role("link", name="bob/late#1").click()
        page.get_by_role("link", name="Move in the queue").click()
        expect(page.get_by_text("It stands at place 1 of the 2 waiting jobs of research")).to_be_visible()
        assert looked_at(page, "queue-place", PHONE_AT_NIGHT) == []
        page.get_by_label("Behind another job").check()
        page.get_by_label("The other job").select_option(label="2. bob/early#1")
        page.get_by_role("button", name="Move it").click()
        expect(page.get_by_text("bob/late#1 went from place 1 to 2 of the 2")).to_be_visible(timeout=SLOW_MS)
        notice = page.get_by_role("region", name="Why it waits")
        expect(notice).to_contain_text("Place 2 in the queue of research.", timeout=SLOW_MS)
        page.locator("#priority-menu summary").click()
        page.locator("#priority-form").get_by_role("combobox").select_option(label="Production")
        with page.expect_navigation(timeout=SLOW_MS):
            page.get_by_role("button", name="Change the class").click()
        expect(page.locator(".facts")).to_contain_text("Production")

        site.open(f"/virtual-clusters/{user.vc}/rules")
        page.get_by_label("GPUs one user may hold").fill("1")
        page.get_by_role("button", name="Change the rules").click()
        expect(page.get_by_role("region", name="Rules")).to_contain_text("1 GPU")
        members = page.get_by_role("region", name="Members")
        members.get_by_label("Name").fill("dave")
        members.get_by_role("button", name="Add").click()
        members.get_by_label("Role of dave").select_option(label="Lead")
        members.get_by_role("row").filter(has_text="dave").get_by_role("button", name="Change").click()
        expect(page.get_by_role("region", name="Events")).to_contain_text("dave is lead of research.")
        page.once("dialog", lambda asked: asked.accept())
        members.get_by_role("button", name="Remove dave").click()
        expect(members.get_by_label("Role of dave")).to_have_count(0)
        user.stop(held)
        site.open(f"/jobs/{late}")
        site.expect_state("Running")
        site.open(f"/virtual-clusters/{user.vc}/rules")
        page.get_by_label("GPUs one user may hold").fill("")
        page.get_by_role("button", name="Change the rules").click()

    def test_an_administrator_brings_people_a_team_its_quota_and_takes_a_node_out_and_in(
        self, page: Page, served: Stack, user: Person
    ) -> None:
        job = user.run(SAVES_WHEN_TOLD, name="saving", berth={"gracePeriod": 300})
        site = Site(page, served)
        site.sign_in("root", "/users/import")
        page.get_by_label("Or its text").fill(PEOPLE)
        page.get_by_role("button", name="Preview the import").click()
        expect(page.get_by_text("2 accounts can be created. Nothing is done yet.")).to_be_visible(timeout=SLOW_MS)
        page.get_by_role("button", name="Create the accounts").click()
        expect(page.get_by_text("2 accounts are created.")).to_be_visible(timeout=SLOW_MS)

        site.open("/new-virtual-cluster")
        page.get_by_label("Name").fill("speech")
        page.get_by_label("Jobs of several tasks").select_option("False")
        page.get_by_role("button", name="Create it").click()
        expect(page.get_by_role("heading", name="speech")).to_be_visible()
        self.give(site, "vision", 1)
        self.give(site, "speech", 1)
        expect(page.get_by_role("region", name="Quota")).to_contain_text("0 of 1 used")

        user.wait(job, "running")
        (folder,) = (path.parent for path in served.jobs_root.rglob("saves-when-told"))
        site.open("/cluster/nodes/here")
        page.get_by_label("Reason").fill("a new fan")
        page.once("dialog", lambda asked: asked.accept())
        page.get_by_role("button", name="Drain").click()
        expect(page.get_by_text("Healthy, draining")).to_be_visible()
        tasks = page.get_by_role("region", name="Tasks")
        expect(tasks).to_contain_text("0 of 1 task is gone.")
        expect(tasks.locator("[data-until]")).to_be_visible(timeout=SLOW_MS)
        assert looked_at(page, "drain", PHONE_AT_NIGHT) == []
        (folder / "saved").touch()
        expect(tasks).to_contain_text("The task that ran here is gone: the drain is done.", timeout=SLOW_MS)
        expect(tasks.get_by_role("progressbar")).to_have_attribute("value", "1")
        user.stop(job)
        site.open("/cluster")
        page.get_by_text("Health", exact=True).click()
        expect(page.locator(".map-key").filter(has_text="draining")).to_be_visible()
        site.open("/cluster/nodes/here")
        page.get_by_role("button", name="Open").click()
        expect(page.get_by_text("Healthy", exact=True)).to_be_visible()

    def test_an_administrator_adds_a_server_which_comes_with_the_lines_that_were_copied_and_removes_it(
        self, page: Page, served: Stack
    ) -> None:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        site = Site(page, served)
        site.sign_in("root", "/cluster/nodes")
        page.get_by_role("link", name="Add a server").click()
        page.get_by_label("Name").fill("there")
        page.get_by_role("button", name="Register it").click()
        arrival = page.locator("#arrival")
        expect(arrival).to_contain_text("Waiting for the first report of there.", timeout=SLOW_MS)
        assert looked_at(page, "node-join", PHONE_AT_NIGHT) == []
        page.get_by_role("region", name="Key and settings").get_by_role("button", name="Copy").click()
        lines = page.evaluate("navigator.clipboard.readText()")
        (key,) = re.findall(r"node\.key' <<'END'\n(\S+)\nEND", lines)
        told = dict(line.split("=", 1) for line in lines.splitlines() if line.startswith("BERTH_NODE_"))
        there = replace(served.agents[0], name="there", gpus="simulated:2xA100-80GB")
        agent = served.join(there, told, key)
        expect(arrival).to_contain_text("Accept it on its page, and it gets jobs.", timeout=SLOW_MS)
        arrival.get_by_role("link", name="To its page").click()
        expect(page.locator("#node .notice")).to_contain_text("2 x A100-80GB")
        page.get_by_role("button", name="Accept this server").click()
        expect(page.get_by_text("Accepted: it counts with the next report.")).to_be_visible()
        site.open("/cluster/nodes/there/join")
        expect(arrival).to_contain_text("there is here. It has 2 GPUs: A100-80GB.", timeout=SLOW_MS)
        agent.kill()
        del served.processes["there"]
        site.open("/cluster/nodes/there/remove")
        page.get_by_role("button", name="Remove it").click()
        expect(page.get_by_text("there is removed.")).to_be_visible(timeout=SLOW_MS)

    def test_an_administrator_sets_what_becomes_of_idle_gpus_who_is_told_and_reads_who_did_what(
        self, page: Page, served: Stack
    ) -> None:
        site = Site(page, served)
        site.sign_in("root", "/idle")
        page.get_by_label("What happens to an idle job").select_option(label="Warn, then stop it")
        page.get_by_label("Warn after, in minutes").fill("90")
        page.get_by_role("button", name="See whom it would warn").click()
        expect(page.get_by_text("With this policy no job would have a warning now.")).to_be_visible(timeout=SLOW_MS)
        page.get_by_role("button", name="Set the policy").click()
        expect(page.get_by_text(re.compile("for 90 minutes, its owner is warned"))).to_be_visible(timeout=SLOW_MS)

        site.open("/cluster/webhook")
        page.get_by_label("Address").fill("https://hooks.example.invalid/berth")
        page.get_by_label("Secret").fill(SECRET)
        page.get_by_label("A node is lost").check()
        with page.expect_navigation():
            page.get_by_role("button", name="Set the webhook").click()
        expect(page.get_by_label("Address")).to_have_value("https://hooks.example.invalid/berth")
        expect(page.get_by_label("A node is lost")).to_be_checked()
        assert SECRET not in page.content()
        page.get_by_role("button", name="Remove the webhook").click()
        expect(page.get_by_role("button", name="Remove the webhook")).to_have_count(0, timeout=SLOW_MS)
        expect(page.get_by_label("Address")).to_have_value("")

        site.open("/usage?by=user")
        expect(page.get_by_text("GPU hours held")).to_be_visible()
        site.open("/audit?actor=root")
        entries = page.get_by_role("table")
        for words in ("removed the webhook", "Set what becomes of jobs whose GPUs do nothing"):
            expect(entries).to_contain_text(words)

    def give(self, site: Site, vc: str, gpus: int) -> None:
        """A quota, after a look at what it would do."""
        site.open(f"/virtual-clusters/{vc}/quota")
        site.page.get_by_label(re.compile("A100")).first.fill(str(gpus))
        site.page.get_by_role("button", name="See what it would do").click()
        expect(site.page.get_by_text("Every running job keeps its guaranteed GPUs.")).to_be_visible()
        site.page.get_by_role("button", name="Do it").click()
        expect(site.page.get_by_text("Done. No job was stopped.")).to_be_visible()
