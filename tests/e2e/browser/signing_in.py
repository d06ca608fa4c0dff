"""Signing in by a real OpenID provider, in the browser: there and back, and with what was typed before."""

from contextlib import closing

from playwright.sync_api import Browser, Page, expect

from tests.e2e.browser.looking import looked_at, looking
from tests.e2e.browser.site import SESSION
from tests.support.cluster.stack import Stack
from tests.support.services.oidc.provider import CLIENT, SECRET, Provider
from tests.support.services.oidc.served import PASSWORD
from tests.support.services.processes import free_port
from tests.support.services.services import Services

ROLES = '{"vision-leads": "lead:vision"}'
EVE = {"preferred_username": "eve", "groups": ["vision-leads"]}


REFUSED = ["/profile/tokens", "/login"]
"""What is sent after the session has ended."""


def sign_in_by_a_provider(chromium: Browser, stack: Stack, services: Services) -> None:
    """On one more web process, which knows a provider."""
    port = free_port()
    callback = f"http://127.0.0.1:{port}/login/oidc/callback"
    with closing(Provider(services, redirect=callback, users={"eve": EVE})) as provider:
        provider.start()
        told = {"ISSUER": provider.issuer, "CLIENT_ID": CLIENT, "CLIENT_SECRET": SECRET, "ROLES": ROLES}
        env = {f"BERTH_OIDC_{name}": value for name, value in told.items()}
        url = stack.web_beside(port, BERTH_OIDC_NAME="Example", **env)
        with looking(chromium, stack, refused=REFUSED) as (site, faults):
            journey(site.page, url, faults)


def journey(page: Page, url: str, faults: list[str]) -> None:
    page.goto(f"{url}/login?next=/virtual-clusters/vision")
    faults += looked_at(page, "login-provider")
    page.get_by_role("link", name="Log in with Example").click()
    page.get_by_label("Name").fill("eve")
    page.get_by_label("Secret word").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{url}/virtual-clusters/vision")
    expect(page.get_by_text("eve").first).to_be_visible()

    page.goto(f"{url}/profile")
    expect(page.get_by_text("You log in to this account by Example.")).to_be_visible()
    page.get_by_label("What it is for").fill("laptop")
    page.context.clear_cookies(name=SESSION)
    with page.expect_response(f"{url}/profile/tokens"):
        page.get_by_role("button", name="Create a token").click()
    faults += looked_at(page, "login-provider-kept")
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Log in with Example").click()
    expect(opened.value.get_by_role("navigation", name="Main")).to_be_visible()
    opened.value.close()
    page.get_by_role("button", name="I am logged in: go on").click()
    expect(page.get_by_role("heading", name="Not sent yet")).to_be_visible()
    page.get_by_role("button", name="Send it now").click()
    expect(page.get_by_text("The token “laptop” is created.")).to_be_visible()
