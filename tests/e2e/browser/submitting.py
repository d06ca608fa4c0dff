"""What a person does on the submit page and with templates: forms filled from what is there, code as an archive,
parameters and secrets, and what the scheduler says before anything is sent."""

import io
import re
import zipfile
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.e2e.browser.looking import looked_at
from tests.e2e.browser.site import SLOW_MS, Site
from tests.e2e.browser.walking import Alone
from tests.support.people.person import Person, job_file

TUNED = "echo lr <% $parameters.lr %>"
SECRET = "hush-my-baby"
HOLDS = "sleep 600"
LARGE = 2**31


class SubmitJourneys(Alone):
    """`user` leads research, bob is in it and carol is not; `served` is a stack of one node with four GPUs."""

    def test_a_job_becomes_a_private_template_then_its_teams_which_a_member_uses_and_a_stranger_does_not_see(
        self, site: Site, user: Person
    ) -> None:
        page = site.page
        job = user.run(TUNED, name="tuned", gpu=0, parameters={"lr": 0.1})
        user.wait(job, "succeeded")
        site.open(f"/jobs/{job}")
        page.get_by_role("link", name="Save as template").click()
        self.save(page, "tune", "Only me")
        saved = page.get_by_role("region", name="Saved templates")
        expect(saved.get_by_role("listitem")).to_contain_text("yours")
        self.seen_by(site, "bob", 0)
        self.seen_by(site, user.name, 1)
        saved.get_by_role("link", name="Use tune").click()
        form = page.get_by_role("region", name="Form")
        expect(form.get_by_label("Parameters: value")).to_have_value("0.1")
        page.get_by_role("button", name="Save as template").click()
        self.save(page, "tune", "Members of research")
        expect(saved.get_by_role("listitem")).to_have_count(2)
        page.get_by_role("listitem").filter(has_text="yours").get_by_role("link", name="Remove tune").click()
        expect(page.get_by_text("Nobody but you uses it.")).to_be_visible()
        page.get_by_role("button", name="Remove it").click()
        expect(saved.get_by_role("listitem")).to_have_count(1)

        self.seen_by(site, "carol", 0)
        self.seen_by(site, "bob", 1)
        expect(saved.get_by_role("link", name="Remove tune")).to_have_count(0)
        saved.get_by_role("link", name="Use tune").click()
        form.get_by_label("Parameters: value").fill("0.5")
        self.sent(site)
        assert site.log_lines() == ["lr 0.5"]
        expect(page.get_by_role("heading", name="bob/tuned")).to_be_visible()

        page.get_by_role("link", name="Submit again").click()
        expect(form.get_by_label("Parameters: value")).to_have_value("0.5")
        expect(form.get_by_label("Name", exact=True)).to_have_value("tuned")
        expect(page.get_by_text("This file is valid.")).to_be_visible(timeout=SLOW_MS)
        self.seen_by(site, user.name, 1)
        saved.get_by_role("link", name="Remove tune").click()
        page.get_by_role("button", name="Remove it").click()
        expect(page.get_by_text("No templates yet.")).to_be_visible()

    def save(self, page: Page, name: str, whose: str) -> None:
        # The page that led here may have such a field, too.
        expect(page.get_by_role("heading", name="Create a template")).to_be_visible(timeout=SLOW_MS)
        page.get_by_label("Name", exact=True).fill(name)
        page.get_by_label("Who may use it").select_option(label=whose)
        page.get_by_label("What it is for").fill("a learning rate")
        expect(page.get_by_text("This file is valid.")).to_be_visible(timeout=SLOW_MS)
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_role("region", name="Messages")).to_contain_text("The template is saved.")

    def seen_by(self, site: Site, name: str, templates: int) -> None:
        """Opens the templates as somebody else."""
        site.leave()
        site.sign_in(name, "/templates")
        saved = site.page.get_by_role("region", name="Saved templates")
        expect(saved.get_by_role("link", name="Use tune")).to_have_count(templates)

    def sent(self, site: Site, state: str = "Succeeded") -> None:
        expect(site.page.get_by_text("This file is valid.")).to_be_visible(timeout=SLOW_MS)
        site.page.get_by_role("button", name="Submit", exact=True).click()
        site.page.wait_for_url(re.compile(r"/jobs/\d+$"))
        site.expect_state(state)
        if state == "Succeeded":
            site.expect_log("complete")  # its last lines may come after its state

    def test_a_sample_of_the_gallery_fills_the_form(self, site: Site) -> None:
        page = site.page
        site.open("/templates")
        page.get_by_role("searchbox").or_(page.get_by_label("Find a template")).fill("notebook")
        page.get_by_role("button", name="Find").click()
        expect(page.locator(".sample")).to_have_count(0)
        page.get_by_role("link", name="Clear").click()
        page.locator(".sample").filter(has_text="jupyter").click()
        form = page.get_by_role("region", name="Form")
        expect(form.get_by_label("Name", exact=True)).to_have_value("jupyter")
        expect(form.get_by_label("Time limit")).to_have_value("8h")
        expect(form.get_by_label("Command")).to_have_value(re.compile("JUPYTER_TOKEN="))
        expect(form.get_by_label("Ports: label")).to_have_value("jupyter")
        expect(form.get_by_label("Virtual cluster")).to_have_value("research")
        # More than the server has is said beside the field, and taken back there.
        cores = form.locator("[data-job-error=cpu]")
        expect(cores).to_contain_text("the largest node it may use has", timeout=SLOW_MS)
        expect(page.locator("[data-job-outlook]")).to_contain_text("Once the file is valid")
        form.get_by_label("CPU cores per task").fill("1")
        form.get_by_label("Memory per task, MB").fill("512")
        expect(cores).to_be_empty(timeout=SLOW_MS)
        expect(page.get_by_text("It would start now on here.")).to_be_visible(timeout=SLOW_MS)

    def test_code_comes_as_a_zip_and_one_that_is_hostile_or_too_large_is_refused_beside_its_field(
        self, site: Site, tmp_path: Path
    ) -> None:
        page = site.page
        site.type_file(job_file("sh run.sh; ls", vc="research", name="zipped", gpu=0))
        code = page.get_by_role("region", name="Code", exact=True)
        field, said = code.get_by_label("Code of this job"), code.get_by_role("status")
        refused = {
            "leads out of the folder": {"../../etc/cron.d/x": "* * * * * root true"},
            "Its files take 2048 MB": {"zeros.bin": "0" * 1000},
            "This is not a zip archive": {},
        }
        for words, files in refused.items():
            self.choose(code, tmp_path, files, LARGE if "zeros.bin" in files else 0)
            expect(said).to_contain_text(words)
            expect(field).to_have_value("")
        expect(page.get_by_label("Name", exact=True)).to_have_value("zipped")

        self.choose(code, tmp_path, {
            "run.sh": "cat data/words", "data/words": "from the zip\n", ".gitignore": "*.tmp", "left.tmp": "out",
        })  # fmt: skip
        expect(said).to_contain_text("files: 3.", timeout=SLOW_MS)
        expect(field).to_have_value(re.compile("sha256:"))
        kept = field.input_value()
        self.choose(code, tmp_path, {"/etc/passwd": "x"})
        expect(said).to_contain_text("leads out of the folder")
        expect(field).to_have_value(kept)
        self.sent(site)
        assert site.log_lines() == ["from the zip", "data", "run.sh"]

    def choose(self, code: Locator, folder: Path, files: dict[str, str], claimed: int = 0) -> None:
        """An archive of these files, which says of the last one that it has `claimed` bytes; none: no archive."""
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in files.items():
                archive.writestr(name, text)
        content = bytearray(made.getvalue() if files else b"these are words")
        if claimed:
            entry = content.rindex(b"PK\x01\x02")
            content[entry + 24 : entry + 28] = claimed.to_bytes(4, "little")
        path = folder / "code.zip"
        path.write_bytes(content)
        code.get_by_label("Choose a zip file").set_input_files(path)

    def test_parameters_secrets_and_roles_come_from_the_form_and_a_problem_stands_beside_its_field(
        self, site: Site
    ) -> None:
        page = site.page
        uses = "echo <% $parameters.lr %>; key=<% $secrets.key %>; echo ${#key} letters; "
        uses += "until [ -e $BERTH_JOB_DIR/there ]; do sleep 0.1; done"
        site.type_file(job_file(uses, vc="research", name="given"))
        form = page.get_by_role("region", name="Form")
        missing = form.locator("[data-job-error=secrets]")
        expect(missing).to_contain_text("give it under secrets", timeout=SLOW_MS)
        form.get_by_role("button", name="Add a parameter").click()
        self.typed(page, "lr", "0.25")
        form.get_by_role("button", name="Add a secret").click()
        self.typed(page, "key", SECRET)
        expect(missing).to_be_empty(timeout=SLOW_MS)
        expect(form.get_by_label("Secrets of this job: value")).to_have_attribute("type", "password")
        assert SECRET not in site.editor.inner_text(), "dots are drawn in its place"
        form.get_by_role("button", name="Add a task role").click()
        second = form.get_by_role("region", name="Task role").nth(1)
        second.get_by_label("Task role").fill("worker")
        second.get_by_label("Tasks", exact=True).fill("none")
        expect(second.locator("[data-job-error=instances]")).to_contain_text("whole number", timeout=SLOW_MS)
        assert (
            looked_at(page, "submit-problems", {"narrow": {"color_scheme": "light", "viewport": page.viewport_size}})
            == []
        )
        second.get_by_label("Tasks", exact=True).fill("1")
        second.get_by_label("Task role").fill("other")
        second.get_by_label("Command").fill("echo from the other; touch $BERTH_JOB_DIR/there")
        self.sent(site)
        assert site.log_lines() == ["0.25", f"{len(SECRET)} letters"]
        page.locator(".task").nth(1).click()
        expect(page.get_by_role("heading", name="other/0")).to_be_visible()
        site.expect_log("complete")
        assert site.log_lines() == ["from the other"]
        page.get_by_role("link", name="Job file").click()
        expect(page.get_by_role("heading", name="Job file")).to_be_visible()
        assert SECRET not in page.content()

    def typed(self, page: Page, name: str, value: str) -> None:
        """Into the row that was added, which has the keyboard."""
        page.keyboard.type(name)
        page.keyboard.press("Tab")
        page.keyboard.type(value)

    def test_before_it_is_sent_one_reads_whether_it_starts_and_why_not(self, site: Site, user: Person) -> None:
        page = site.page
        (share,) = user.get(f"/virtual-clusters/{user.vc}")["gpus"]
        held = user.run(HOLDS, name="holding", gpu=share["quota"] - 1)
        user.wait(held, "running")
        site.type_file(job_file("true", vc=user.vc, name="asked"))
        gpus, outlook = page.get_by_label("GPUs per task"), page.locator("[data-job-outlook]")
        expect(outlook).to_have_text("It would start now on here.", timeout=SLOW_MS)
        gpus.fill(str(share["quota"]))
        expect(outlook).to_have_attribute("aria-busy", "true")
        expect(outlook).to_contain_text("It would wait: ", timeout=SLOW_MS)
        expect(outlook).to_contain_text(f"holds {share['quota'] - 1} of its {share['quota']}")
        expect(outlook).to_contain_text("Place 1 in its queue.")
        gpus.fill("9999")
        expect(page.locator("[data-job-error=gpu]")).to_contain_text(
            "the largest node it may use has 4", timeout=SLOW_MS
        )
        expect(outlook).to_contain_text("Once the file is valid")
        page.route("**/api/v1/estimates", lambda route: route.fulfill(body="busy", content_type="text/plain"))
        gpus.fill("1")
        expect(outlook).to_contain_text("The scheduler could not be asked just now.", timeout=SLOW_MS)
        page.unroute("**/api/v1/estimates")
        gpus.fill(str(share["quota"]))
        expect(outlook).to_contain_text("It would wait: ", timeout=SLOW_MS)
