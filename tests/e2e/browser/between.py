"""What stands between the pages: what is asked before something is done, what became of it, and every way to be
refused. Each says what is wrong with how it looks."""

from django.template.loader import render_to_string
from playwright.sync_api import Dialog, Page, expect

from tests.e2e.browser.looking import looked_at
from tests.e2e.browser.site import SESSION, SLOW_MS, Site
from tests.support.cluster.seed import PASSWORD
from tests.support.cluster.stack import Stack
from tests.support.run.waiting import wait_until

REFUSED = ["/profile/password", "/templates/new", "/new-user", "/language", "/users/import", "/users/bob/password"]
"""The paths that are answered with 400 or more."""


def secrets_and_passwords(site: Site) -> list[str]:
    """A token that is shown once, and a password that is wrong."""
    page, faults = site.page, list[str]()
    site.open("/profile")
    page.get_by_label("What it is for").fill("tablet")
    page.get_by_role("button", name="Create a token").click()
    expect(page.get_by_text("Copy it now")).to_be_visible()
    faults += looked_at(page, "token-once")
    page.get_by_label("Current password").fill("not-it")
    page.get_by_label("New password").fill("battery-staple-9")
    page.get_by_role("button", name="Change the password").click()
    expect(page.get_by_text("This is not the current password.")).to_be_visible()
    faults += looked_at(page, "password-wrong")
    return faults


def answers_in_bulk(site: Site) -> list[str]:
    """What is asked before chosen jobs are stopped, and what became of each."""
    page, faults = site.page, list[str]()
    site.open("/jobs?state=succeeded&state=failed")
    page.get_by_label("All on this page").first.check()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("button", name="Stop them")).to_be_visible()
    faults += looked_at(page, "bulk-ask")
    page.get_by_role("button", name="Stop them").click()
    expect(page.get_by_text("not done").first).to_be_visible()
    faults += looked_at(page, "bulk-done")
    return faults


def refusals(site: Site) -> list[str]:
    """Every way to be refused."""
    page, faults = site.page, list[str]()
    site.open("/new-user")
    expect(page.get_by_role("heading", name="Not allowed")).to_be_visible()
    faults += looked_at(page, "forbidden")
    for name, most, length in (("too-large", "1.9 MB", 3_000_000), ("much-too-large", "9.5 MB", 11_000_000)):
        site.open("/templates/new")
        send_long(page, length)
        expect(page.get_by_text("Nothing was changed.")).to_contain_text(f"At most {most}", timeout=SLOW_MS)
        faults += looked_at(page, name)
    site.open("/templates/new")
    send_long(page, 5, fields=1100)
    expect(page.get_by_role("heading", name="Not understood")).to_be_visible()
    faults += looked_at(page, "not-understood")
    site.open("/profile")
    page.context.clear_cookies(name="csrftoken")
    page.get_by_role("button", name="Use it").click()
    expect(page.get_by_role("heading", name="Not sent yet")).to_be_visible()
    faults += looked_at(page, "not-sent-yet")
    site.open("/profile")
    page.get_by_label("Current password").fill("not-it")
    page.get_by_label("New password").fill("battery-staple-9")
    page.context.clear_cookies(name="csrftoken")
    page.get_by_role("button", name="Change the password").click()
    expect(page.get_by_role("heading", name="Not accepted")).to_be_visible()
    faults += looked_at(page, "not-accepted")
    return faults


def a_form_that_is_kept(site: Site) -> list[str]:
    """A form whose session ended: the log-in beside it, and the form that is offered again."""
    page, faults = site.page, list[str]()
    site.open("/templates/new")
    page.get_by_label("Name", exact=True).fill("kept")
    page.context.clear_cookies(name=SESSION)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Your session has ended.")).to_be_visible()
    faults += looked_at(page, "login-kept")
    page.get_by_label("User name").fill("alice")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("button", name="Send it now")).to_be_visible()
    faults += looked_at(page, "resume")
    return faults


def what_an_administrator_types(site: Site) -> list[str]:
    """A table with rows that cannot be, a password that is refused, and a mistake of ours."""
    page, faults = site.page, list[str]()
    page.context.clear_cookies(name=SESSION)
    site.sign_in("root", "/users/import")
    page.get_by_label("Or its text").fill(f"username,email\nzoe,zoe@example.org\nalice,\n{'x' * 200},\n")
    page.get_by_role("button", name="Preview the import").click()
    expect(page.get_by_text("2 of 3 rows cannot be imported.")).to_be_visible()
    faults += looked_at(page, "import-rows")
    site.open("/users/bob")
    page.get_by_label("Password").fill("bob")
    page.get_by_role("button", name="Set the password").click()
    expect(page.get_by_role("alert").first).to_be_visible()
    faults += looked_at(page, "user-password-wrong")
    page.set_content(render_to_string("500.html"))
    faults += looked_at(page, "mistake")
    return faults


def send_long(page: Page, length: int, fields: int = 1) -> None:
    """Send the first form with a text area of the page, with so much more in it."""
    page.evaluate(
        """([length, fields]) => {
            const form = document.querySelector("textarea").form;
            for (let i = 0; i < fields; i++) {
                const more = document.createElement("textarea");
                more.name = "more"; more.value = "x".repeat(length); form.append(more);
            }
            form.submit();
        }""",
        [length, fields],
    )


def looked_at_a_silence(site: Site) -> list[str]:
    """What is wrong with the page that silences an alert of the server, and with the page of alerts then; the silence
    is ended."""
    page = site.page
    site.open("/alerts")
    page.get_by_role("link", name="Silence here", exact=True).first.click(timeout=SLOW_MS)
    faults = looked_at(page, "alert-silence")
    page.get_by_label("Reason").fill("known, it belongs to the drill")
    page.get_by_role("button", name="Silence it").click()
    silenced = page.get_by_text("known, it belongs to the drill")
    expect(silenced).to_be_visible()
    faults += looked_at(page, "alerts-silenced")
    page.get_by_role("button", name="End the silence of here").click()
    expect(silenced).to_have_count(0)
    return faults


def looked_at_a_stranger(site: Site, attempt: str) -> list[str]:
    """What is wrong with a server's page that tells of a container the portal does not know; then it is stopped."""
    page, asked = site.page, list[str]()

    def answer(dialog: Dialog) -> None:
        """No to the first question, yes to the second."""
        asked.append(dialog.message)
        dialog.dismiss() if len(asked) == 1 else dialog.accept()

    page.on("dialog", answer)
    site.open("/cluster/nodes/here")
    strangers = page.get_by_role("region", name="Unknown containers")
    expect(strangers).to_contain_text(attempt, timeout=SLOW_MS)
    faults = looked_at(page, "node-strangers")
    strangers.get_by_label("Reason").fill("left by the drill")
    strangers.get_by_role("button", name=f"Stop {attempt}").click()
    strangers.get_by_label("Reason").press("Enter")
    expect(page.get_by_text(f"task attempt {attempt} is stopped: left by the drill")).to_be_visible()
    assert asked == [f"Stop the container {attempt} on here, which holds 1 GPU? What it has not saved is lost."] * 2
    expect(strangers).to_have_count(0, timeout=SLOW_MS)
    page.remove_listener("dialog", answer)
    return faults


def looked_at_claims(site: Site, stack: Stack) -> list[str]:
    """What is wrong with the page of a server that waits to be accepted, and of one that claims more than was; the
    first is accepted, and both are removed."""
    page, faults, names = site.page, list[str](), ("new1", "grown1")
    stack.script("tests.support.cluster.claiming", *names)
    for name, words in zip(names, ("8 x NVIDIA H100", "128 CPU cores (accepted: 64)"), strict=True):
        site.open(f"/cluster/nodes/{name}")
        expect(page.locator("#node .notice")).to_contain_text(words)
        expect(page.get_by_text("a Docker Engine at 127.0.0.1:2375")).to_be_visible()
        faults += looked_at(page, f"node-{name}")
    site.open("/cluster/nodes")
    expect(page.locator("#nodes")).to_contain_text("It waits to be accepted.")
    site.open(f"/cluster/nodes/{names[0]}")
    box = page.get_by_label("Tasks without GPUs may run there")
    expect(box).to_be_checked()
    box.uncheck()
    page.evaluate("document.getElementById('node').dispatchEvent(new Event('berth:refresh'))")
    page.wait_for_load_state("networkidle")
    expect(box).not_to_be_checked()
    page.get_by_role("button", name="Accept this server").click()
    expect(page.get_by_text("Accepted: it counts with the next report.")).to_be_visible()
    expect(page.get_by_role("button", name="Accept this server")).to_have_count(0)
    expect(page.get_by_role("button", name="Allow tasks without GPUs")).to_be_visible()
    site.open("/cluster/nodes")  # a page of a server asks for it time and again
    with stack.client("root") as root:
        assert all(root.delete(f"/nodes/{name}").is_success for name in names)
    return faults


def looked_at_silent_servers(site: Site, stack: Stack) -> list[str]:
    """What is wrong with the page of a server that fell silent with most others, and with what becomes of it when it is
    given up; they are removed."""
    page, names = site.page, ("old1", "old2")
    given_up = page.get_by_role("region", name="Give up")

    def silent() -> int:
        """Told again where the portal was late in taking reports in meanwhile: then it begins to wait anew."""
        stack.script("tests.support.services.silent", *names)
        site.open(f"/cluster/nodes/{names[0]}")
        return given_up.count()

    wait_until(silent, "the page that offers to give it up", deadline_s=90)
    expect(given_up).to_contain_text("It is silent together with most others")
    faults = looked_at(page, "node-silent")
    given_up.get_by_label("Reason").fill("its board is broken")
    given_up.get_by_role("button", name="Give it up").click()
    expect(page.get_by_text("its board is broken").first).to_be_visible()
    expect(given_up).to_have_count(0)
    faults += looked_at(page, "node-given-up")
    site.open("/")
    with stack.client("root") as root:
        assert root.post(f"/nodes/{names[1]}/give-up", json={"reason": "the same"}).is_success
        assert all(root.delete(f"/nodes/{name}").is_success for name in names)
    return faults
