"""Pages below others say where they stand, one step up at a time."""

from __future__ import annotations

import re

import pytest

from portal.accounts.models import ClusterRole
from portal.common.templatetags.trail import ABOVE
from tests.support.cluster.world import World
from tests.support.people.cast import person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db

WAYS = {
    "/jobs/{job}": ["/jobs"],
    "/jobs/{job}/events": ["/jobs"],
    "/jobs/{job}/move": ["/jobs", "/jobs/{job}"],
    "/templates/new": ["/submit", "/templates"],
    "/cluster/nodes/gpu01": ["/cluster", "/cluster/nodes"],
    "/cluster/nodes/gpu01/remove": ["/cluster", "/cluster/nodes", "/cluster/nodes/gpu01"],
    "/join-tokens": ["/cluster", "/cluster/nodes"],
    "/virtual-clusters/vision/quota": ["/virtual-clusters", "/virtual-clusters/vision"],
    "/virtual-clusters/vision/secrets": ["/virtual-clusters", "/virtual-clusters/vision"],
    "/users/alice": ["/users"],
    "/jobs": [],
    "/nowhere": [],
}


def test_each_page_leads_one_step_up(world: World) -> None:
    names = {"job": world.submit().pk}
    browser = Browser(person("root", ClusterRole.ADMIN))
    for path, way in WAYS.items():
        page = browser.get(path.format(**names))
        trail = re.search(r'<nav class="trail".*?</nav>', page.html, re.DOTALL)
        assert re.findall(r'href="([^"]+)"', trail[0] if trail else "") == [one.format(**names) for one in way], path
    assert all(step.label or step.called for steps in ABOVE.values() for step in steps)


def test_what_is_not_there_says_why_that_may_be_and_what_to_do(browser: Browser) -> None:
    for path in ("/jobs/999999", "/nowhere"):
        page = browser.get(path)
        assert page.status == 404
        assert "a team that you are not in" in page.text
        assert "ask whoever gave you the address" in page.text
        assert page.links["Virtual clusters"] == "/virtual-clusters"
