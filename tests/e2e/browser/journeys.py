"""What a person does in the browser with a job, from its file to its last line."""

import re
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.e2e.browser.site import SLOW_MS, Site
from tests.e2e.browser.walking import Alone
from tests.support.cluster.stack import Stack
from tests.support.people.person import Person, job_file

LINES = 5_000  # more than a piece of a log
COUNT = f'i=0; while [ $i -lt {LINES} ]; do echo "line $i of $BERTH_TASK_RANK"; i=$((i+1)); done'
TRAINER = "sh -c 'trap \"echo saved; exit 0\" TERM; echo training; while :; do sleep 0.1; done'"


class BrowserJourneys(Alone):
    """`user` is the person at the browser; `served` the stack."""

    def test_a_gang_waits_with_its_reason_starts_and_shows_every_line(self, site: Site, user: Person) -> None:
        (share,) = user.get(f"/virtual-clusters/{user.vc}")["gpus"]
        quota = share["quota"]
        first = site.submit(job_file(TRAINER, vc=user.vc, name="first", gpu=quota))
        site.expect_state("Running")
        site.submit(job_file(COUNT, vc=user.vc, name="gang", instances=2))
        gang = site.page.url
        notice = site.page.get_by_role("region", name="Why it waits")
        expect(notice).to_contain_text(f"holds {quota} of its {quota}", timeout=SLOW_MS)
        expect(notice).to_contain_text(f"Place 1 in the queue of {user.vc}.")

        site.open(f"/jobs/{first}")
        expect(site.log).to_contain_text("training", timeout=SLOW_MS)
        site.stop_job()
        site.expect_state("Stopped")
        expect(site.log).to_contain_text("saved", timeout=SLOW_MS)
        expect(site.page.get_by_role("region", name="How it ended")).to_contain_text(f"Stopped by {user.name}.")

        site.page.goto(gang)
        for rank in (0, 1):
            site.page.get_by_role("link", name=f"worker/{rank}").click(timeout=SLOW_MS)
            expect(site.page.get_by_role("heading", name=f"worker/{rank}")).to_be_visible()
            site.expect_log("complete")
            assert site.log_lines() == [f"line {number} of {rank}" for number in range(LINES)]
        site.expect_state("Succeeded")

    def test_a_page_left_open_follows_a_job_from_waiting_to_its_end(self, site: Site, user: Person) -> None:
        site.submit(job_file("echo one", "sleep 2", "echo two", vc=user.vc, name="steps"))
        expect(site.log).to_contain_text("one", timeout=SLOW_MS)
        site.expect_state("Running")
        site.expect_log("live")
        site.expect_state("Succeeded")
        site.expect_log("complete")
        assert site.log_lines() == ["one", "two"]
        assert site.page.get_by_role("link", name="Stop", exact=True).count() == 0

    def test_the_list_changes_under_ones_eyes(self, site: Site, user: Person) -> None:
        site.open("/jobs?mine=on")
        job = user.run("sleep 1", name="watched")
        row = site.page.locator(f"#job-{job}")
        expect(row).to_contain_text(f"{user.name}/watched", timeout=SLOW_MS)
        expect(row).to_contain_text("Succeeded", timeout=SLOW_MS)

    def test_a_failing_job_says_its_cause_and_opens_the_log_of_the_task_that_failed(
        self, site: Site, user: Person
    ) -> None:
        command = '[ "$BERTH_TASK_RANK" = 0 ] && sleep 60; echo "no such data set" >&2; exit 3'
        site.submit(job_file(command, vc=user.vc, name="failing", instances=2))
        site.expect_state("Failed")
        ended = site.page.get_by_role("region", name="How it ended")
        expect(ended).to_contain_text("worker/1")
        expect(ended).to_contain_text("exit status 3")
        site.page.reload()
        expect(site.page.get_by_role("region", name="Log", exact=True)).to_contain_text("worker/1")
        expect(site.log).to_contain_text("no such data set", timeout=SLOW_MS)

    def test_a_progress_bar_writes_over_itself_and_hostile_sequences_do_nothing(self, site: Site, user: Person) -> None:
        hostile = r"\033]0;owned\007\033]8;;https://evil.example\033\\click\033]8;;\033\\ <img src=x onerror=alert(1)>"
        commands = [
            r"for p in 10 50 100; do printf '\r%3d%%' $p; sleep 0.1; done; echo",
            rf"printf '%b\n' '{hostile}'",
            r"printf '\033[1;31mred\033[0m plain\n'",
        ]
        site.submit(job_file(*commands, vc=user.vc, name="hostile"))
        site.expect_log("complete")
        assert site.log_lines() == ["100%", "click <img src=x onerror=alert(1)>", "red plain"]
        assert site.log.locator(".log-text a, .log-text img").count() == 0
        assert "hostile" in site.page.title()
        expect(site.log.locator(".ansi-bold.ansi-fg-1")).to_have_text("red")

    def test_the_log_is_searched_and_its_view_is_chosen(self, site: Site, user: Person) -> None:
        site.submit(job_file("i=0; while [ $i -lt 3000 ]; do echo Step $i; i=$((i+1)); done", vc=user.vc))
        site.expect_log("complete")
        site.page.get_by_role("searchbox", name="Search the log").fill("step 1234")
        site.page.get_by_role("searchbox", name="Search the log").press("Enter")
        expect(site.page.locator("[data-log-found]")).to_have_text("1 / 1")
        expect(site.log.locator("mark")).to_have_text("Step 1234")
        expect(site.log.locator("mark")).to_be_in_viewport()
        times = site.page.get_by_role("button", name="Times")
        times.click()
        expect(times).to_have_attribute("aria-pressed", "true")
        expect(site.log.locator("time").first).to_be_visible()
        site.page.reload()
        expect(times).to_have_attribute("aria-pressed", "true")
        site.page.goto(f"{site.page.url}#L77")
        site.page.reload()
        expect(site.log.locator(".is-current .log-number")).to_have_text("77")

    def test_the_file_is_judged_as_one_types(self, site: Site, user: Person) -> None:
        good = job_file("true", vc=user.vc)
        site.type_file(good.replace("instances: 1", "instances: many"))
        expect(site.page.get_by_text("This file cannot be submitted yet.")).to_be_visible(timeout=SLOW_MS)
        expect(site.page.locator("[data-job-error=instances]")).not_to_be_empty()
        site.page.get_by_role("button", name=re.compile(r"taskRoles\.worker\.instances:\d+")).click()
        expect(site.editor).to_be_focused()
        expect(site.page.locator(".cm-activeLine")).to_contain_text("instances: many")
        site.replace_file(good)
        expect(site.page.get_by_text("This file is valid.")).to_be_visible(timeout=SLOW_MS)
        expect(site.page.locator("[data-job-problems] li")).to_have_count(0)

    def test_form_and_file_fill_each_other(self, site: Site, user: Person) -> None:
        site.type_file("# keep this note\n" + job_file("echo hi", vc=user.vc))
        form = site.page.get_by_role("region", name="Form")
        expect(form.get_by_label("Command")).to_have_value("echo hi")
        form.get_by_label("Name", exact=True).fill("from-the-form")
        form.get_by_label("Tasks", exact=True).fill("2")
        form.get_by_label("Command").fill("echo one\necho two")
        for words in ("# keep this note", "name: from-the-form", "instances: 2", "- echo two"):
            expect(site.editor).to_contain_text(words)
        expect(site.page.get_by_text("This file is valid.")).to_be_visible(timeout=SLOW_MS)
        site.page.get_by_role("button", name="Submit", exact=True).click()
        expect(site.page.get_by_role("heading", name=re.compile("from-the-form"))).to_be_visible()
        site.expect_state("Succeeded")
        assert site.log_lines() == ["one", "two"]

    def test_a_second_task_role_and_a_folder_of_code_come_from_the_form(
        self, site: Site, user: Person, tmp_path: Path
    ) -> None:
        code = tmp_path / "code"
        code.mkdir()
        for name, text in (("greet.sh", "echo hello from the folder"), ("a.log", ""), (".gitignore", "*.log")):
            (code / name).write_text(text)
        site.type_file(job_file("sh greet.sh", vc=user.vc, name="with-code"))
        form = site.page.get_by_role("region", name="Form")
        form.get_by_label("Choose a folder").set_input_files(code)
        expect(form.get_by_text("packed; files: 2.")).to_be_visible(timeout=SLOW_MS)
        form.get_by_role("button", name="Add a task role").click()
        second = form.get_by_role("region", name="Task role").nth(1)
        second.get_by_label("Task role").fill("other")
        second.get_by_label("Command").fill("ls")
        expect(site.editor).to_contain_text("other:")
        second.get_by_role("button", name="Remove", exact=True).click()
        expect(site.editor).not_to_contain_text("other:")
        expect(site.page.get_by_text("This file is valid.")).to_be_visible(timeout=SLOW_MS)
        site.page.get_by_role("button", name="Submit", exact=True).click()
        site.expect_state("Succeeded")
        assert site.log_lines() == ["hello from the folder"]

    def test_a_log_goes_on_where_it_was_when_the_portal_was_away(
        self, chromium: Browser, served: Stack, user: Person
    ) -> None:
        context = chromium.new_context(locale="en-US", reduced_motion="reduce")
        site = Site(context.new_page(), served)
        site.sign_in(user.name)
        count = "i=0; while [ $i -lt 200 ]; do echo line $i; sleep 0.05; i=$((i+1)); done"
        site.submit(job_file(count, vc=user.vc, name="onward"))
        expect(site.log).to_contain_text("line 5", timeout=SLOW_MS)
        served.kill9("web")
        site.expect_log("reconnecting|connecting")
        served.restart("web")
        site.expect_log("complete")
        assert site.log_lines() == [f"line {number}" for number in range(200)]
        site.expect_state("Succeeded")
        context.close()
