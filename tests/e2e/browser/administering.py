"""What administrators do with accounts and means, what becomes of a form when its session ends, and how two people at
one quota meet."""

import re
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, expect

from tests.e2e.browser.looking import PHONE_AT_NIGHT, looked_at, looking
from tests.e2e.browser.site import SLOW_MS, Site
from tests.support.cluster.seed import PASSWORD
from tests.support.cluster.stack import Stack
from tests.support.people.person import Person, job_file

TABLE = "username,password,virtual_clusters\nzoe,staple-horse-7,research\nyan,staple-horse-8,nowhere\n"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKHEChHWDJmrfVzYAIYBZLm3vTZBUvAxqAvNlC4IHCzZ alice@laptop"
FOCUS_SHOWN = """it => {
    const style = getComputedStyle(it);
    return style.outlineStyle !== "none" && style.outlineWidth !== "0px" || style.boxShadow !== "none";
}"""
MOST_TABS = 60


class AdministeringJourneys:
    """`user` leads research; root administers; `served` is a stack of one node named `here`."""

    def test_an_administrator_makes_changes_and_disables_an_account_by_keyboard(
        self, chromium: Browser, served: Stack
    ) -> None:
        with looking(chromium, served, refused=["/new-user"]) as (site, faults):
            page, keyboard = site.page, site.page.keyboard
            site.sign_in("root")
            tab_to(page, page.locator("summary", has_text="Manage"))
            keyboard.press("Enter")
            tab_to(page, page.get_by_role("link", name="Users", exact=True))
            keyboard.press("Escape")
            expect(page.locator("summary", has_text="Manage")).to_be_focused()
            keyboard.press("Enter")
            tab_to(page, page.get_by_role("link", name="Users", exact=True))
            keyboard.press("Enter")
            expect(page.get_by_role("heading", name="Users")).to_be_visible()
            tab_to(page, page.get_by_role("link", name="Create an account"))
            keyboard.press("Enter")
            for label, words in {"User name": "in es", "E-mail": "ines", "Virtual clusters": "no"}.items():
                tab_to(page, page.get_by_label(label, exact=True))
                keyboard.type(words)
            keyboard.press("Enter")
            name = page.get_by_label("User name")
            expect(wrong_beside(name)).to_be_visible()
            expect(name).to_have_attribute("aria-invalid", "true")
            expect(name).to_have_value("in es")
            email = page.get_by_label("E-mail")
            expect(email).to_have_value("ines")
            expect(wrong_beside(email)).to_contain_text("valid email address")
            faults += looked_at(page, "user-new-wrong", PHONE_AT_NIGHT)
            name.fill("ines")
            email.fill("ines@example.org")
            page.get_by_role("button", name="Create the account").click()
            teams = page.get_by_label("Virtual clusters", exact=True)
            expect(wrong_beside(teams)).to_contain_text("no")
            teams.fill("research")
            page.get_by_label("Password").fill(PASSWORD)
            page.get_by_role("button", name="Create the account").click()
            expect(page.get_by_text("The account ines is made.")).to_be_visible()
            expect(page.get_by_role("link", name="research")).to_be_visible()

            page.get_by_label("Role").select_option(label="Auditor")
            page.get_by_role("button", name="Save").click()
            expect(page.get_by_text("ines is changed.")).to_be_visible()
            with looking(chromium, served, refused=["/login"]) as (other, _):
                other.sign_in("ines", "/audit")
                expect(other.page.get_by_role("table")).to_contain_text("ines")
                box = page.get_by_label("May sign in")
                tab_to(page, box)
                keyboard.press("Space")
                tab_to(page, page.get_by_role("button", name="Save"))
                keyboard.press("Enter")
                expect(page.locator(".page-head").get_by_text("disabled")).to_be_visible()
                other.page.reload()
                other.page.get_by_label("User name").fill("ines")
                other.page.get_by_label("Password").fill(PASSWORD)
                other.page.get_by_role("button", name="Log in").click()
                expect(other.page.get_by_role("alert")).to_be_visible()
            page.once("dialog", lambda asked: asked.accept())
            page.get_by_role("button", name="Remove the account").click()
            expect(page.get_by_text("The account ines is removed.")).to_be_visible()

    def test_a_table_of_accounts_is_imported_row_by_row(self, chromium: Browser, served: Stack, tmp_path: Path) -> None:
        file = tmp_path / "people.csv"
        file.write_text(TABLE)
        with looking(chromium, served, refused=["/users/import"]) as (site, _):
            page = site.page
            site.sign_in("root", "/users/import")
            page.get_by_label("CSV file").set_input_files(file)
            page.get_by_role("button", name="Preview the import").click()
            expect(page.get_by_text("1 of 2 rows cannot be imported. No account was created")).to_be_visible()
            rows = page.get_by_role("region", name="Row by row").get_by_role("row")
            expect(rows.filter(has_text="zoe")).to_contain_text("can be created")
            expect(rows.filter(has_text="yan")).to_contain_text("nowhere")
            expect(page.get_by_label("Or its text")).to_have_value(TABLE)
            page.get_by_label("Create the accounts that can be created").check()
            page.get_by_role("button", name="Create the accounts").click()
            expect(page.get_by_text("1 account is created. 1 row could not be imported")).to_be_visible()
            expect(rows.filter(has_text="zoe")).to_contain_text("created")
            page.get_by_label("Or its text").fill(TABLE.replace("nowhere", "vision").replace("zoe", "zoe2"))
            page.get_by_role("button", name="Preview the import").click()
            expect(page.get_by_text("2 accounts can be created.")).to_be_visible()

    def test_storages_images_and_prices_are_changed_and_work_at_once(
        self, chromium: Browser, served: Stack, user: Person
    ) -> None:
        with looking(chromium, served, refused=["/new-storage"]) as (site, faults):
            page = site.page
            site.sign_in("root", "/new-storage")
            page.get_by_label("Name", exact=True).fill("datasets")
            page.get_by_role("textbox", name="Folder").fill("not/absolute")
            page.get_by_role("button", name="Create the storage").click()
            expect(wrong_beside(page.get_by_role("textbox", name="Folder"))).to_be_visible()
            expect(page.get_by_label("Name", exact=True)).to_have_value("datasets")
            faults += looked_at(page, "storage-wrong", PHONE_AT_NIGHT)
            page.get_by_role("textbox", name="Folder").fill("/srv/datasets")
            page.get_by_label("Virtual clusters whose jobs may use it").fill("research")
            page.get_by_role("button", name="Create the storage").click()
            row = page.get_by_role("row").filter(has_text="datasets")
            expect(row).to_contain_text("no server offers it")
            row.get_by_role("link", name="datasets").click()
            page.get_by_label("Read only").check()
            page.get_by_role("button", name="Save").click()
            expect(row).to_contain_text("read only")

            site.open("/images")
            page.get_by_role("textbox", name="Images").fill("registry.example.org/*")
            page.get_by_role("combobox", name="Virtual cluster").fill("research")
            page.get_by_role("button", name="Allow them").click()
            expect(page.get_by_text("registry.example.org/* may run now.")).to_be_visible()
            site.open("/skus")
            price = page.get_by_label(re.compile("^Price")).first
            price.fill("2.5")
            page.get_by_role("button", name="Set").nth(1).click()
            expect(page.get_by_text(re.compile("The price of .* is set."))).to_be_visible()
            expect(price).to_have_value(re.compile(r"^2\.50*$"))

            with looking(chromium, served) as (other, _):
                other.sign_in(user.name, "/storages")
                expect(other.page.get_by_role("row").filter(has_text="datasets")).to_be_visible()
                other.type_file(job_file("true", vc="research"))
                expect(other.page.get_by_text("This file cannot be submitted yet.")).to_be_visible(timeout=SLOW_MS)
                page.once("dialog", lambda asked: asked.accept())
                site.open("/images")
                page.get_by_role("button", name="Remove registry.example.org/*").click()
                expect(page.get_by_text("is removed; running jobs go on.")).to_be_visible()
                other.replace_file(job_file("true", vc="research", name="allowed"))
                expect(other.page.get_by_text("This file is valid.")).to_be_visible(timeout=SLOW_MS)
            site.open("/storages/datasets")
            page.once("dialog", lambda asked: asked.accept())
            page.get_by_role("button", name="Remove the storage").click()
            expect(page.get_by_text("datasets is removed; the files in it stay.")).to_be_visible()
            site.open("/skus")
            price.fill("")
            page.get_by_role("button", name="Set").nth(1).click()

    def test_a_form_whose_session_ends_is_there_again_after_the_log_in(
        self, chromium: Browser, served: Stack, user: Person
    ) -> None:
        """The session is ended on the server: an administrator gives the account a password."""
        file = job_file("true", vc="research", name="typed-before")
        refused = [
            "/submit",
            "/validate",
            "/api/v1/validate",
            "/api/v1/estimates",
            "/rules",
            "/virtual-clusters/research/rules",
        ]
        with (
            looking(chromium, served, refused=refused) as (site, _),
            looking(chromium, served) as (other, _),
        ):
            page = site.page
            site.sign_in("bob")
            site.type_file(file)
            expect(page.get_by_text("This file is valid.")).to_be_visible(timeout=SLOW_MS)
            other.sign_in("root", "/users/bob")
            other.page.get_by_label("Password").fill(PASSWORD)
            other.page.get_by_role("button", name="Set the password").click()
            expect(other.page.get_by_text("bob has a new password and is signed out.")).to_be_visible()
            del served.sessions["bob"]
            page.get_by_role("button", name="Submit", exact=True).click()
            expect(page.get_by_text("Your session has ended.")).to_be_visible()
            page.get_by_label("User name").fill("bob")
            page.get_by_label("Password").fill(PASSWORD)
            page.keyboard.press("Enter")
            expect(page.get_by_text("What you had typed is still here. It was not sent yet.")).to_be_visible()
            look = page.get_by_role("button", name="Look at it first")
            tab_to(page, look)
            page.keyboard.press("Enter")
            expect(site.editor).to_contain_text("name: typed-before")
            page.get_by_role("button", name="Submit", exact=True).click()
            page.wait_for_url(re.compile(r"/jobs/\d+$"))
            expect(page.get_by_role("heading", name="bob/typed-before")).to_be_visible()

    def test_two_people_at_one_quota_see_each_other(self, chromium: Browser, served: Stack) -> None:
        made = served.client("root").post("/users", json={"username": "otto", "password": PASSWORD, "role": "admin"})
        assert made.is_success, made.text
        address = "/virtual-clusters/vision/quota"
        with (
            looking(chromium, served) as (first, _),
            looking(chromium, served, refused=[address]) as (second, faults),
        ):
            first.sign_in("root", address)
            second.sign_in("otto", address)
            number, other = quota_of(first), quota_of(second)
            before = number.input_value()
            assert int(before) > 1
            other.fill("0")
            second.page.get_by_label("Reason").fill("a smaller team")
            number.fill("1")
            first.page.get_by_role("button", name="See what it would do").click()
            first.page.get_by_role("button", name="Do it").click()
            expect(first.page.get_by_text("Done. No job was stopped.")).to_be_visible()
            look = second.page.get_by_role("button", name="See what it would do")
            tab_to(second.page, look)
            second.page.keyboard.press("Enter")
            told = second.page.get_by_role("alert").filter(has_text="Somebody else changed this")
            expect(told).to_contain_text("it is “1” now")
            expect(told).to_contain_text("root")
            expect(other).to_have_value("0")
            expect(second.page.get_by_label("Reason")).to_have_value("a smaller team")
            faults += looked_at(second.page, "quota-overtaken", PHONE_AT_NIGHT)
            look.click()
            second.page.get_by_role("button", name="Do it").click()
            expect(second.page.get_by_text("Done. No job was stopped.")).to_be_visible()
            second.open(address)
            expect(other).to_have_value("0")
            other.fill(before)
            look.click()
            second.page.get_by_role("button", name="Do it").click()
            expect(second.page.get_by_text("Done. No job was stopped.")).to_be_visible()

    def test_a_token_is_made_used_and_revoked_and_a_key_and_notices_are_kept(
        self, chromium: Browser, served: Stack
    ) -> None:
        with looking(chromium, served, refused=["/profile/ssh-keys"]) as (site, faults):
            page, keyboard = site.page, site.page.keyboard
            site.sign_in("carol", "/profile")
            tab_to(page, page.get_by_label("What it is for"))
            keyboard.type("notebook")
            keyboard.press("Enter")
            secret = page.locator("#new-token").inner_text()
            with served.client("carol") as client:
                client.headers["Authorization"] = f"Bearer {secret}"
                assert client.get("/me").json()["username"] == "carol"
                site.open("/profile")
                assert secret not in page.content()
                row = page.get_by_role("row").filter(has_text="notebook")
                expect(row.locator("time")).to_have_count(3)
                tab_to(page, row.get_by_role("button", name="Revoke"))
                keyboard.press("Enter")
                expect(page.get_by_text("The token is revoked.")).to_be_visible()
                assert client.get("/me").status_code == 401

            site.open("/profile/ssh-keys")
            public = page.get_by_label("Public key")
            public.fill("not a key")
            page.get_by_role("button", name="Add the key").click()
            expect(wrong_beside(public)).to_be_visible()
            expect(public).to_have_value("not a key")
            faults += looked_at(page, "key-wrong", PHONE_AT_NIGHT)
            public.fill(KEY)
            page.get_by_role("button", name="Add the key").click()
            expect(page.get_by_role("row").filter(has_text="alice@laptop")).to_contain_text("SHA256:")
            page.get_by_role("button", name="Delete alice@laptop").click()
            expect(page.get_by_text("The key is deleted.")).to_be_visible()

            site.open("/profile/notices")
            box = page.get_by_role("checkbox").first
            was = box.is_checked()
            tab_to(page, box)
            keyboard.press("Space")
            with page.expect_navigation():
                keyboard.press("Enter")
            site.open("/profile/notices")
            expect(box).to_be_checked(checked=not was)


def tab_to(page: Page, wanted: Locator) -> None:
    """Go there by the tabulator key alone; where one is must be seen."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if wanted.evaluate("it => it === document.activeElement"):
            assert wanted.evaluate(FOCUS_SHOWN), f"the focus is not seen: {wanted}"
            return
    raise AssertionError(f"the keyboard does not get to {wanted}")


def wrong_beside(field: Locator) -> Locator:
    """What is wrong with a field, in its own box."""
    return field.locator("xpath=..").locator(".field-error").first


def quota_of(site: Site) -> Locator:
    return site.page.get_by_label(re.compile("A100")).first
