"""The gallery's Jupyter sample on a real Docker Engine with a real JupyterLab: from the gallery to a notebook server
that opens with its token, and to nobody without."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser.site import SLOW_MS, Site
from tests.support.cluster.stack import Stack
from tests.support.images.jupyter_image import jupyter_image
from tests.support.people.person import Person, alice
from tests.support.run.waiting import wait_until
from tests.support.services.docker_engine import DockerEngine

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

OWN = {
    "python:3.12": "the image",
    "cpu: 4": "cpu: 1",
    "memoryMB: 16384": "memoryMB: 2048",
}
"""What one changes of the sample here: the image, and what a small machine has."""


@pytest.fixture(scope="module")
def user(stack: Stack) -> Person:
    return alice(stack)


def test_the_sample_starts_a_notebook_server_that_opens_with_its_token_and_to_nobody_without(
    page: Page, stack: Stack, user: Person, running_docker: DockerEngine
) -> None:
    image = jupyter_image(running_docker)
    site = Site(page, stack)
    site.sign_in(user.name, "/templates")
    page.get_by_role("link", name=re.compile("^jupyter ")).click()
    expect(page.locator(".cm-editor")).to_be_visible()
    text = page.locator("textarea[name=config]").input_value()
    for word, own in (OWN | {"python:3.12": image}).items():
        assert word in text
        text = text.replace(word, own)
    site.replace_file(text)
    expect(page.get_by_text("This file is valid.")).to_be_visible(timeout=SLOW_MS)
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url(re.compile(r"/jobs/\d+$"))
    job = int(page.url.rsplit("/", 1)[1])
    site.expect_state("Running")
    expect(site.log).to_contain_text("Its address, with the token, is in jupyter.txt", timeout=SLOW_MS)

    link = page.get_by_role("region", name="Ports").get_by_role("link", name=re.compile(r"^jupyter: \d+$"))
    server = link.get_attribute("href") or ""
    wait_until(lambda: answers(server), "Jupyter to answer", deadline_s=120)
    assert httpx.get(f"{server}/api/contents", trust_env=False).status_code == 403
    assert httpx.get(f"{server}/api/contents?token=guessed", trust_env=False).status_code == 403
    with page.context.expect_page() as opened:
        link.click()
    expect(opened.value.get_by_label("Password or token:")).to_be_visible(timeout=SLOW_MS)

    page.get_by_role("link", name="Files", exact=True).click()
    page.get_by_role("link", name="jupyter.txt", exact=True).click()
    address = page.get_by_label("Text of jupyter.txt").inner_text().strip()
    assert address.startswith(f"{server}/lab?token=")
    token = urlsplit(address).query.removeprefix("token=")
    assert len(token) >= 43
    assert token not in "\n".join(user.log_lines(job))
    assert httpx.get(f"{server}/api/contents?token={token}", trust_env=False).is_success
    lab = page.context.new_page()
    lab.goto(address)
    expect(lab.get_by_role("main").get_by_text("Launcher").first).to_be_visible(timeout=SLOW_MS)
    lab.close()
    opened.value.close()
    assert user.job(job)["state"] == "running"
    user.stop(job)
    user.wait(job, "stopped")
    assert not answers(server)


def answers(server: str) -> bool:
    try:
        return httpx.get(f"{server}/api", timeout=5, trust_env=False).status_code < 500
    except httpx.HTTPError:
        return False
