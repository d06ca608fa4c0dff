"""Wiring of the test run: what Django reads, where the services come from, what is told at the end."""

import gc
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.cluster.seed import quick_passwords
from tests.support.run.parts import uses_database
from tests.support.run.report import Report, kind_of
from tests.support.services.services import SERVICES, Services

pytest_plugins = ["tests.support.run.fixtures", "tests.support.cluster.worlds"]

# Five suites share the machine: how long an example takes says nothing of it.
settings.register_profile("berth", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("berth")

ON_BOTH = (
    "integration/accounts/test_audit",
    "integration/accounts/test_pages_seen",
    "integration/accounts/test_tokens",
    "integration/cluster/test_api",
    "integration/cluster/test_gpus",
    "integration/cluster/test_topology",
    "integration/common/test_prepared",
    "integration/common/test_problems",
    "integration/common/test_row_versions",
    "integration/idle/test_minutes",
    "integration/job_pages/api/test_jobs",
    "integration/job_pages/api/test_lists",
    "integration/job_pages/api/test_submit",
    "integration/jobs/test_job_life",
    "integration/queue/test_order",
    "integration/queue/test_waits",
    "integration/scheduler/test_overtaken",
    "integration/scheduler/test_snapshot",
    "integration/scheduler/test_starting_together",
    "integration/teams/test_quotas",
    "integration/teams/test_vc_lists",
    "integration/usage/test_folding",
    "integration/usage/test_gpu_hours",
    "integration/usage/test_usage",
)
"""Tests of what the databases do each in their own way: transactions, locks, rows read in bulk, sums, order; and the
walks through every operation and page, which put each query to both. The others ask for what Berth makes of it."""

FROM_DOCUMENTS = ("integration/common/test_openapi.py", "integration/openpai/test_any_request.py")
"""Where each operation of a document makes a test: most of the time that it takes to find all tests."""


def pytest_configure(config: pytest.Config) -> None:
    # A run that was started in the background of a script ignores Ctrl-C, and so would all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    services = Services(forking=True)
    config.stash[SERVICES] = services
    config.add_cleanup(services.close)
    services.fill_environment()
    config.pluginmanager.register(Report(config), "berth-report")
    if config.pluginmanager.hasplugin("django"):
        import django

        django.setup()
        from tests.support.run.emptying import quick_flush

        quick_passwords()
        quick_flush()
        config.option.reuse_db = True  # the server and its folder go with the run: nothing to drop


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files in which `-m` wants nothing are not even read: unit tests use no database."""
    chosen, name = config.option.markexpr, _below_tests(collection_path, config)
    if collection_path.suffix != ".py" or not name:
        return None
    if "not once" in chosen and not name.startswith(ON_BOTH):
        return True
    if chosen.startswith("database") and name.startswith("unit/"):
        return True
    return True if name in FROM_DOCUMENTS and ("not fuzz" in chosen or "not database" in chosen) else None


def pytest_collection_finish() -> None:
    # As in the web process: what is there now stays, and is not gone through again and again.
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _below_tests(path: Path, config: pytest.Config) -> str:
    tests = config.rootpath / "tests"
    return path.relative_to(tests).as_posix() if path.is_relative_to(tests) else ""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs once on each database, what makes things fail, and what makes clusters up for the engine, so that
    `-m` can choose it.

    The scheduler's cycle reads in a transaction of its own kind, which PostgreSQL refuses inside a test's: whoever
    has a World to run it in gets real transactions.
    """
    for item in items:
        for folder in {"conformance", "faults", "flows", "browser"}.intersection(item.path.parts):
            item.add_marker(folder)
        below = _below_tests(item.path, item.config)
        if below.startswith("unit/scheduling/") and kind_of(item) == "property":
            item.add_marker("worlds")
        if uses_database(item):
            item.add_marker("database")
            assert not below.startswith("unit/"), f"{item.nodeid} uses the database: it belongs into integration"
            if not below.startswith(ON_BOTH):
                item.add_marker("once")
            if isinstance(item, pytest.Function) and has_world(item):
                item.fixturenames.insert(0, "transactional_db")


def has_world(item: pytest.Function) -> bool:
    return "world" in item.fixturenames or hasattr(item.module, "World")
