"""Wiring of the test run: what Django reads, where the services come from, what is told at the end."""

import signal

import pytest

from tests.support.parts import uses_database
from tests.support.report import Report
from tests.support.seed import quick_passwords
from tests.support.services import SERVICES, Services

pytest_plugins = ["tests.support.fixtures"]

EDGE = ("client/", "common/test_examples.py", "notices/", "openpai/", "jobs/logs/", "jobs/pages/", "jobs/sessions/")
"""Tests of what stands over services and selectors, whose own tests run on both databases; that every page opens is
tried on both as well."""


def pytest_configure(config: pytest.Config) -> None:
    # A run that was started in the background of a script ignores Ctrl-C, and so would all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    services = Services()
    config.stash[SERVICES] = services
    config.add_cleanup(services.close)
    services.fill_environment()
    config.pluginmanager.register(Report(config), "berth-report")
    if config.pluginmanager.hasplugin("django"):
        import django

        django.setup()
        from tests.support.emptying import quick_flush

        quick_passwords()
        quick_flush()
        config.option.reuse_db = True  # the server and its folder go with the run: nothing to drop


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs once on each database and what makes things fail, so that `-m` can choose it.

    The scheduler's cycle reads in a transaction of its own kind, which PostgreSQL refuses inside a test's: whoever
    has a World to run it in gets real transactions.
    """
    for item in items:
        if "faults" in item.path.parts:
            item.add_marker("faults")
        if uses_database(item):
            item.add_marker("database")
            if item.path.relative_to(item.config.rootpath / "tests").as_posix().startswith(EDGE):
                item.add_marker("edge")
            if isinstance(item, pytest.Function) and has_world(item):
                item.fixturenames.insert(0, "transactional_db")


def has_world(item: pytest.Function) -> bool:
    return "world" in item.fixturenames or hasattr(item.module, "World")
