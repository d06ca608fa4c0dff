"""The page about the API, in a browser: under the same strict rules for scripts as every other page."""

from playwright.sync_api import Page, expect

from tests.browser.site import Site
from tests.support.stack import Stack


def test_the_api_can_be_read_and_tried_in_the_browser(page: Page, embedded_stack: Stack) -> None:
    site = Site(page, embedded_stack)
    site.sign_in("alice")
    page.goto(f"{embedded_stack.url}/api/docs")
    operation = page.locator("#operations-me-me")
    page.locator("#operations-tag-me").click()
    operation.click()
    operation.get_by_role("button", name="Try it out").click()
    operation.get_by_role("button", name="Execute").click()
    expect(operation.get_by_text('"username": "alice"').first).to_be_visible()
