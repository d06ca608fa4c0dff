"""Who goes through the pages in a journey, and what is taken away after each."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.e2e.browser.site import Site
from tests.support.cluster.stack import Stack
from tests.support.people.person import Person


class Alone:
    """The user signed in at a browser; the jobs end with each test."""

    @pytest.fixture
    def site(self, page: Page, served: Stack, user: Person) -> Site:
        made = Site(page, served)
        made.sign_in(user.name)
        return made

    @pytest.fixture(autouse=True)
    def _ended(self, user: Person) -> Iterator[None]:
        yield
        user.clear()


class Together:
    """The user, and bob of the same team; the jobs of both end with each test that has bob."""

    @pytest.fixture
    def bob(self, served: Stack, user: Person) -> Iterator[Person]:
        made = Person(served, "bob", user.vc)
        yield made
        made.clear()
        user.clear()
