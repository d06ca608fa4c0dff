"""Every page in light, dark and narrow: nothing sticks out, nothing is hard to read, the keyboard gets everywhere."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.browser import between
from tests.e2e.browser.looking import DRAWN, NARROW, look, looked_at, looking
from tests.e2e.browser.pages import (
    ABSENT,
    ADMINISTRATION,
    GROUP,
    IN_OTHER_TESTS,
    NO_PAGES,
    VC,
    addresses,
    names_of,
    of_user,
)
from tests.e2e.browser.signing_in import sign_in_by_a_provider
from tests.e2e.browser.site import SLOW_MS, Site
from tests.support.cluster.seed import PASSWORD
from tests.support.cluster.stack import Stack
from tests.support.cluster.strangers import stranger_begin
from tests.support.people.person import Person, alice, job_file
from tests.support.services.services import Services

COLOURS = r"printf '\033[1;36m== training ==\033[0m\n\033[33mWARNING\033[0m: few GPUs\n\033[31mError\033[0m\n'"
HEADLINE = r"printf '\033[1;36m== epoch 1 of 3 ==\033[0m\n'"
STEPS = (
    'for s in $(seq 1 24); do printf "step %5d  loss \\033[32m%d.%03d\\033[0m  lr 3.0e-04  '
    '\\033[2m%d tok/s\\033[0m\\n" $((s*50)) $((48/(s+5))) $((997-s*31)) $((8400+s%7*13)); done'
)

PARKED = """
    INSERT INTO parking_parking (task_attempt_id, turn, state, cause, changed_at, parked_mb, never, fault)
    SELECT attempt.id, 1, 'parked', '{"says": "parking_by", "who": "alice"}', attempt.created_at, 61000, false, '""'
    FROM jobs_taskattempt attempt JOIN jobs_task task ON task.id = attempt.task_id AND task.job_id = %s
    ORDER BY attempt.id LIMIT 1
"""


@pytest.fixture(scope="module")
def user(embedded_stack: Stack) -> Iterator[Person]:
    """Somebody with a job that succeeded, one that failed, one that runs and one that waits."""
    made = alice(embedded_stack)
    made.wait(made.run(COLOURS, name="done"), "succeeded")
    made.wait(made.run("echo broken >&2; exit 3", name="broken"), "failed")
    ssh = {"com.microsoft.pai.runtimeplugin": [{"plugin": "ssh", "parameters": {"jobssh": True}}]}
    made.wait(made.run(HEADLINE, STEPS, "sleep 600", name="running", instances=2, extras=ssh), "running")
    waiting = made.run("true", name="waiting")
    made.wait_for(waiting, lambda job: job["waiting"] and job["waiting"]["code"])
    yield made
    made.clear()


@pytest.fixture(scope="module")
def template(user: Person) -> Iterator[int]:
    """Of alice's own."""
    file = job_file("true", vc=user.vc, name="from-template")
    made = user.http.post("/templates", json={"name": "nightly", "description": "each night", "file": file})
    assert made.is_success, made.text
    yield int(made.json()["id"])
    assert user.http.delete(f"/templates/{made.json()['id']}").is_success


@pytest.fixture
def paths(user: Person, template: int) -> dict[str, str]:
    return of_user(user, template)


def test_every_page_fits_and_can_be_read(chromium: Browser, embedded_stack: Stack, paths: dict[str, str]) -> None:
    with looking(chromium, embedded_stack, refused=[ABSENT]) as (site, faults):
        faults += looked_at_from_outside(site, embedded_stack)
        site.sign_in("alice")
        for name, path in paths.items():
            site.open(path)
            if re.fullmatch(r"/jobs/\d+(\?log=all)?", path) and name != "waiting":
                expect(site.page.locator(".log-row").first).to_be_visible(timeout=SLOW_MS)
            if name == "submit":
                site.page.get_by_label("GPUs per task").fill("2")
                expect(site.page.get_by_role("button", name="Take what goes with 2")).to_be_visible()
                expect(site.page.get_by_text("This file is valid.")).to_be_visible()
                expect(site.page.get_by_text("It would")).to_be_visible()
            faults += looked_at(site.page, name)
        faults += looked_at_parked(site, paths["running"])


def looked_at_parked(site: Site, path: str) -> list[str]:
    """What is wrong with the page of a job that is parked, as the portal has it written down meanwhile."""
    site.stack.sql(PARKED, path.rpartition("/")[2])
    site.open(path)
    expect(site.page.get_by_role("region", name="Parked")).to_contain_text("alice parked it")
    faults = looked_at(site.page, "parked")
    site.stack.sql("DELETE FROM parking_parking")
    return faults


def looked_at_from_outside(site: Site, stack: Stack) -> list[str]:
    """What is wrong with the pages of who is not signed in; two of them as they are while nobody administers."""
    link = stack.manage("reset_password", "dave").strip()
    faults: list[str] = []
    for name, path in {"forgotten": "/password/forgotten", "password-new": link.removeprefix(stack.url)}.items():
        site.open(path)
        faults += looked_at(site.page, name)
    role = "UPDATE accounts_user SET role = %s WHERE username = 'root'"
    stack.sql(role, "user")
    for path in ("/login", "/first"):
        site.open(path)
        expect(site.page.get_by_text("Nobody administers this cluster yet.")).to_be_visible()
        faults += looked_at(site.page, path.strip("/"))
    stack.sql(role, "admin")
    return faults


def test_no_page_is_forgotten(page: Page, embedded_stack: Stack, paths: dict[str, str]) -> None:
    """Whatever answers a browser with HTML is looked at by one of these tests, or it is said where or why not."""
    seen = names_of(paths) | names_of(ADMINISTRATION)
    elsewhere = NO_PAGES.keys() | IN_OTHER_TESTS.keys()
    known = dict(addresses())
    assert not elsewhere - known.keys(), "no longer in the URL configuration"
    assert not elsewhere & seen, "in the tables of pages too"
    Site(page, embedded_stack).sign_in("root")
    for name in sorted(known.keys() - seen - elsewhere):
        answer = page.request.get(f"{embedded_stack.url}{known[name]}", max_redirects=0)
        is_page = answer.headers.get("content-type", "").startswith("text/html") and answer.status not in {302, 405}
        assert not is_page, f"nobody looks at the page {name}, {known[name]}"


def test_every_page_of_administrators_fits_and_can_be_read(
    chromium: Browser, embedded_stack: Stack, user: Person
) -> None:
    """One of them with what a change would do."""
    root = embedded_stack.client("root")
    assert root.post("/groups", json={"name": GROUP}).is_success
    free = next(gpu["uuid"] for gpu in root.get("/nodes/here").json()["gpus"] if not gpu["holder"])
    stranger = stranger_begin(embedded_stack, gpus=(free,))
    with looking(chromium, embedded_stack) as (site, faults):
        site.sign_in("root")
        for name, path in ADMINISTRATION.items():
            site.open(path)
            faults += looked_at(site.page, name)
        faults += between.looked_at_a_silence(site)
        faults += between.looked_at_a_stranger(site, stranger)
        faults += between.looked_at_claims(site, embedded_stack)
        faults += between.looked_at_silent_servers(site, embedded_stack)
        site.open("/idle")
        site.page.get_by_role("button", name="See whom it would warn").click()
        expect(site.page.get_by_text("would have a warning now")).to_be_visible()
        faults += looked_at(site.page, "idle-look")
        site.open(f"{VC}/quota")
        site.page.get_by_label(re.compile("A100")).first.fill("0")
        site.page.get_by_role("button", name="See what it would do").click()
        expect(site.page.get_by_role("button", name="Do it")).to_be_visible()
        faults += looked_at(site.page, "quota")


def test_what_stands_between_the_pages_fits_and_can_be_read(
    chromium: Browser, embedded_stack: Stack, user: Person, paths: dict[str, str]
) -> None:
    with looking(chromium, embedded_stack, refused=between.REFUSED) as (site, faults):
        site.sign_in("alice")
        faults += between.secrets_and_passwords(site)
        faults += between.answers_in_bulk(site)
        faults += between.refusals(site)
        faults += between.a_form_that_is_kept(site)
        faults += between.what_an_administrator_types(site)


def test_in_chinese_the_pages_fit_a_phone(chromium: Browser, embedded_stack: Stack, paths: dict[str, str]) -> None:
    """By what the browser asks for. Where there is no Chinese font the pictures have boxes in place of words."""
    context = chromium.new_context(locale="zh-CN", reduced_motion="reduce", viewport=NARROW)
    site = Site(context.new_page(), embedded_stack)
    site.open("/login")
    faults = look(site.page, "login-chinese")
    site.page.locator("[name=username]").fill("alice")
    site.page.locator("[name=password]").fill(PASSWORD)
    site.page.get_by_role("button", name="登录").click()
    expect(site.page.get_by_role("navigation", name="主导航")).to_be_visible()
    for name in ("home", "jobs", "submit", "running", "waiting", "queue", "cluster"):
        site.open(paths[name])
        site.page.evaluate(DRAWN)
        faults += look(site.page, f"{name}-chinese")
    context.close()
    assert not faults, "\n".join(faults)


SHIFTS = """window.shifts = []; new PerformanceObserver(list => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput)
        window.shifts.push([entry.value, entry.sources.map(source => source.node?.id || source.node?.className)]);
}).observe({type: "layout-shift", buffered: true})"""
READY = {
    "/": "#alerts-brief .alerts-line",
    "/submit": ".outlook:not(.is-none)",
    "/cluster": ".dot-gpu",
    VC: "#vc-usage .chart",
    "/jobs": "main tbody .state",
    "/queue": "main tbody tr",
    "/usage": "main form",
    "/templates": ".card h3",
    "/virtual-clusters": "main .quota-bar",
    "/cluster/nodes": "main tbody .state",
    "/cluster/nodes/here": "main meter",
    "/profile": "main form",
    "/help": ".prose img.by-day",
    "/help/pages": ".prose img.by-day",
}
"""What comes last on each page."""


def test_nothing_moves_when_a_part_of_the_page_comes_later(
    page: Page, embedded_stack: Stack, user: Person, paths: dict[str, str]
) -> None:
    page.add_init_script(SHIFTS)
    site = Site(page, embedded_stack)
    site.sign_in(user.name)
    of_jobs = {paths["running"]: ".log-row", paths["broken"]: ".log-row", paths["waiting"]: ".notice"}
    charts = {f"{paths['running']}/charts": "#charts", f"{paths['running']}/events": "main time"}
    for path, part in (READY | of_jobs | charts).items():
        site.open(path)
        expect(page.locator(part).first).to_be_visible()
        shifts = page.evaluate("new Promise(done => requestAnimationFrame(() => done(window.shifts)))")
        assert sum(value for value, _ in shifts) < 0.02, f"{path}: {shifts}"


def test_a_lost_connection_is_shown_what_is_typed_is_kept_and_the_page_catches_up(
    chromium: Browser, embedded_stack: Stack, user: Person
) -> None:
    context = chromium.new_context(locale="en-US", reduced_motion="reduce")
    site = Site(context.new_page(), embedded_stack)
    page = site.page
    site.sign_in(user.name, "/jobs?text=meanwhile")
    banner = page.locator("[data-connection-words]")
    context.set_offline(True)
    expect(banner).to_have_text("Connection lost. This page shows how it was.")
    user.run("true", name="meanwhile", gpu=0)
    context.set_offline(False)
    expect(banner).to_have_text("Connected again. The page is brought up to date.")
    expect(page.get_by_role("link", name="alice/meanwhile")).to_be_visible()
    site.open("/profile")
    page.get_by_label("What it is for").fill("laptop")
    context.set_offline(True)
    page.get_by_role("button", name="Create a token").click()
    expect(page.get_by_role("alert")).to_contain_text("nothing was sent")
    expect(page.get_by_label("What it is for")).to_have_value("laptop")
    context.set_offline(False)
    page.get_by_role("button", name="Create a token").click()
    expect(page.get_by_text("Copy it now")).to_be_visible()
    page.get_by_role("row", name="laptop").get_by_role("button", name="Revoke").click()
    told = page.get_by_role("region", name="Messages").get_by_text("The token is revoked.")
    expect(told).to_be_visible()
    page.get_by_role("button", name="Close this message").click()
    expect(told).to_have_count(0)
    context.close()


def test_what_is_wrong_with_a_field_stands_below_its_hint(chromium: Browser, embedded_stack: Stack) -> None:
    context = chromium.new_context(locale="en-US", reduced_motion="reduce")
    site = Site(context.new_page(), embedded_stack)
    page = site.page
    site.sign_in("root", "/new-virtual-cluster")
    page.get_by_label("Name").fill("no name!")
    page.get_by_label("Jobs of several tasks").select_option("False")
    page.get_by_role("button", name="Create it").click()
    wrong, hint = page.locator(".field-error").bounding_box(), page.locator(".form-hint").first.bounding_box()
    assert wrong
    assert hint
    assert wrong["y"] >= hint["y"] + hint["height"]
    assert looked_at(page, "field-wrong") == []
    context.close()


def test_light_or_dark_is_chosen_once_and_kept(page: Page, embedded_stack: Stack, user: Person) -> None:
    page.emulate_media(color_scheme="light")
    site = Site(page, embedded_stack)
    site.sign_in(user.name)
    root = page.locator("html")
    expect(root).to_have_attribute("data-bs-theme", "light")
    page.get_by_role("button", name="Light or dark").click()
    expect(root).to_have_attribute("data-bs-theme", "dark")
    site.open("/jobs")
    expect(root).to_have_attribute("data-bs-theme", "dark")


def test_the_keyboard_alone_reaches_the_content_and_stops_a_job(
    page: Page, embedded_stack: Stack, user: Person
) -> None:
    site = Site(page, embedded_stack)
    site.sign_in(user.name)
    job = user.run("sleep 600", name="keyboard", gpu=0)
    site.open(f"/jobs/{job}")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.get_by_role("link", name="Stop", exact=True).focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.press("Enter")
    expect(dialog).to_be_visible()
    page.keyboard.press("Enter")
    site.expect_state("Stopped", "Stopping")


def test_without_script_the_file_is_a_plain_text_field(chromium: Browser, embedded_stack: Stack, user: Person) -> None:
    context = chromium.new_context(java_script_enabled=False, locale="en-US")
    site = Site(context.new_page(), embedded_stack)
    site.sign_in(user.name)
    site.open("/submit")
    field = site.page.get_by_label("Job file", exact=True).and_(site.page.locator("textarea"))
    field.fill(field.input_value().replace("my-job", "plain").replace("gpu: 1", "gpu: 0"))
    site.page.get_by_role("button", name="Submit", exact=True).click()
    expect(site.page.get_by_role("heading", name="alice/plain#1")).to_be_visible()
    assert site.page.get_by_role("button", name="Follow").count() == 0
    context.close()


def test_the_map_is_coloured_filtered_searched_and_walked(page: Page, embedded_stack: Stack, user: Person) -> None:
    site = Site(page, embedded_stack)
    site.sign_in(user.name)
    site.open("/cluster")
    squares, faded = page.locator(".map-box .dot-gpu"), page.locator(".map-box .dot-gpu.is-off")
    keys, held = page.locator(".map-key"), page.get_by_role("link", name="alice/running")
    expect(held).to_have_count(2)
    page.get_by_text("Health", exact=True).click()
    expect(page).to_have_url(re.compile("by=health"))
    keys.filter(has_text="healthy").click()
    expect(faded).to_have_count(0)
    page.get_by_text("Team", exact=True).click()
    keys.filter(has_text="free").click()
    expect(faded).to_have_count(2)
    expect(keys.filter(has_text="free")).to_be_focused()
    page.reload()
    expect(keys.filter(has_text="free")).to_have_attribute("aria-pressed", "true")
    keys.filter(has_text="free").click()
    page.get_by_role("searchbox").fill("alice running")
    expect(page.locator(".map-live")).to_contain_text("2 of")
    expect(faded).to_have_count(squares.count() - 2)
    squares.first.focus()
    page.keyboard.press("End")
    expect(squares.last).to_be_focused()
    held.first.focus()
    expect(page.locator(".map-tip")).to_contain_text("alice/running")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="alice/running")).to_be_visible()


def test_the_api_can_be_read_and_tried_in_the_browser(chromium: Browser, embedded_stack: Stack) -> None:
    """Under the same strict rules for scripts as every other page; by who is not signed in, too."""
    with looking(chromium, embedded_stack) as (site, faults):
        page = site.page
        site.open("/api/docs")
        expect(page.locator("#operations-tag-me")).to_be_visible()
        site.sign_in("alice")
        site.open("/api/docs")
        page.locator("#operations-tag-tokens").click()
        page.locator("#operations-tag-me").click()
        operation = page.locator("#operations-me-me")
        opened = operation.locator(".opblock-summary-control")
        opened.focus()
        page.keyboard.press("Enter")
        operation.get_by_role("button", name="Try it out").click()
        operation.get_by_role("button", name="Execute").click()
        answered = operation.locator(".live-responses-table")
        expect(answered.get_by_text('"username": "alice"').first).to_be_visible()
        made = page.locator("#operations-tokens-token_create")
        made.locator(".opblock-summary-control").click()
        made.get_by_role("button", name="Try it out").click()
        made.get_by_role("button", name="Execute").click()
        expect(made.locator(".live-responses-table .response-col_status").last).to_contain_text("201")
        faults += looked_at(page, "api-docs")


def test_one_signs_in_by_a_provider_and_goes_on_with_what_was_typed(
    chromium: Browser, embedded_stack: Stack, services: Services
) -> None:
    sign_in_by_a_provider(chromium, embedded_stack, services)
