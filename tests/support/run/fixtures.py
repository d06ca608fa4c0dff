"""The fixtures that hand real services to tests. Unit tests use none of them."""

import time
from collections.abc import Generator, Iterator
from contextlib import closing
from ipaddress import ip_network
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from pytest_django.fixtures import Settings

from tests.support.cluster.stack import Agent, Stack
from tests.support.images import images
from tests.support.run import parts
from tests.support.run.report import Report
from tests.support.services import browser
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.mail_server import MailServer
from tests.support.services.migrated import postgres_copy, sqlite_copy
from tests.support.services.postgres import PostgresServer
from tests.support.services.receiver import Receiver
from tests.support.services.redis_server import RedisServer
from tests.support.services.services import SERVICES, Services

ARTIFACTS = Path("test-artifacts")
FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def services(pytestconfig: pytest.Config) -> Services:
    return pytestconfig.stash[SERVICES]


@pytest.fixture(scope="session")
def report(pytestconfig: pytest.Config) -> Report:
    """What is told at the end of the run."""
    found = pytestconfig.pluginmanager.get_plugin("berth-report")
    assert isinstance(found, Report)
    return found


@pytest.fixture(scope="session")
def postgres(services: Services) -> PostgresServer:
    """A running PostgreSQL; a test that kills it starts it again."""
    services.postgres.start()
    return services.postgres


@pytest.fixture(scope="session")
def running_redis(services: Services) -> RedisServer:
    services.redis.start()
    return services.redis


@pytest.fixture
def redis_server(running_redis: RedisServer) -> Iterator[RedisServer]:
    """A running Redis, the one that Django's settings name, empty before and after the test."""
    running_redis.empty()
    yield running_redis
    if not running_redis.answers():
        running_redis.start()
    running_redis.empty()


@pytest.fixture(autouse=True)
def _redis_under_django(request: pytest.FixtureRequest) -> None:
    """Whatever uses the database may publish, throttle and cache as well: give it an empty Redis."""
    if parts.uses_database(request.node):
        request.getfixturevalue("redis_server")


@pytest.fixture(scope="session")
def django_db_modify_db_settings(request: pytest.FixtureRequest, services: Services) -> None:
    """Start the database that Django's test cases run on, migrated already; SQLite as a file, as in real use."""
    from django.db import connection

    if parts.database() == "postgresql":
        postgres_copy(request.getfixturevalue("postgres"), f"test_{connection.settings_dict['NAME']}")
    else:
        connection.settings_dict["TEST"]["NAME"] = str(services.folder / "test.sqlite3")
        sqlite_copy(services.folder / "test.sqlite3")


@pytest.fixture(scope="session")
def running_docker(services: Services) -> DockerEngine:
    services.docker.start()
    services.docker.ensure_image(images.BUSYBOX)
    return services.docker


@pytest.fixture
def docker_engine(running_docker: DockerEngine) -> Iterator[DockerEngine]:
    """A running Docker Engine that holds `busybox:latest`, without containers before and after the test."""
    yield running_docker
    if not running_docker.answers():
        running_docker.restart()
    running_docker.remove_containers()


@pytest.fixture
def python_image(docker_engine: DockerEngine) -> str:
    """The name of an image with Python, bash and the usual commands."""
    return docker_engine.ensure_image(images.PYTHON)


@pytest.fixture(scope="module")
def stack(services: Services, postgres: PostgresServer, running_docker: DockerEngine) -> Iterator[Stack]:
    """The whole of Berth on PostgreSQL and a Docker Engine, with two nodes of four simulated GPUs each; one for all
    tests of a file."""
    database_url = postgres_copy(postgres, f"stack_{len(services.stacks)}_{time.monotonic_ns()}")
    made = Stack(services, database_url=database_url, docker_url=running_docker.url)
    with closing(made):
        made.start()
        yield made
    running_docker.remove_containers()


@pytest.fixture(scope="session")
def embedded_stack(services: Services) -> Iterator[Stack]:
    """The whole of Berth as `make demo` runs it: SQLite, one node with the process runtime; for the leases of job
    folders it waits a second alone."""
    agents = [Agent(name="here", runtime="process", env=(("BERTH_NODE_LEASE_STILL_S", "1"),))]
    made = Stack(services, database_url=sqlite_copy(services.new_folder("sqlite") / "berth.sqlite3"), agents=agents)
    with closing(made):
        made.start()
        yield made


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.launched() as launched:
        yield launched


@pytest.fixture
def page(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page of a fresh browser session, where nothing moves for its own sake: without a graphics card each frame is
    drawn by the CPU. An error on the browser's console fails the test; a failed test leaves its screenshot in
    `test-artifacts`."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, locale="en-US", reduced_motion="reduce")
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if browser.is_error(message) else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    if request.node.stash.get(FAILED, False):
        ARTIFACTS.mkdir(exist_ok=True)
        page.screenshot(path=ARTIFACTS / f"{request.node.name}.png", full_page=True)
    context.close()
    assert not errors, f"errors on the browser's console: {errors}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
        tails = [tail for stack in item.config.stash[SERVICES].stacks for tail in stack.tails()]
        report.sections += [(f"the end of {name}'s output", text) for name, text in tails]
    return report


@pytest.fixture
def mail_server(settings: Settings) -> Iterator[MailServer]:
    """Where the portal sends its mail."""
    with closing(MailServer()) as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_ON, settings.EMAIL_FROM = True, "Berth <berth@example.org>"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        yield server


@pytest.fixture
def receiver(settings: Settings) -> Iterator[Receiver]:
    """Where a webhook may point: loopback, which the settings allow for it."""
    settings.WEBHOOK_ALLOW = [ip_network("127.0.0.1")]
    with closing(Receiver()) as receiver:
        yield receiver
