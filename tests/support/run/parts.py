"""The real parts that tests run on: which test needs which, and whether this machine can give them."""

import os
import shutil
from collections.abc import Callable
from functools import cache

import pytest

from tests.support.services import openpai_nni, openpai_sdk
from tests.support.services.browser import chromium_binary
from tests.support.services.pooler import pooler_binary
from tests.support.services.postgres import postgres_binaries
from tests.support.services.redis_server import tls_binary

FIXTURES = {
    "postgres": "postgres",
    "running_redis": "redis",
    "embedded_stack": "redis",
    "running_docker": "docker",
    "chromium": "browser",
}
DATABASE_FIXTURES = {"db", "transactional_db", "django_db_setup", "django_db_serialized_rollback"}
CHOSEN_ONLY = ("soak", "benchmark")


def database() -> str:
    """The database under Django's own test cases: `postgresql` or `sqlite`, by BERTH_TEST_DATABASE."""
    chosen = os.environ.get("BERTH_TEST_DATABASE", "postgresql")
    if chosen not in ("postgresql", "sqlite"):
        raise pytest.UsageError(f"BERTH_TEST_DATABASE={chosen!r}: must be postgresql or sqlite")
    return chosen


def to_skip() -> set[str]:
    """The parts that BERTH_TEST_SKIP lets this run do without."""
    named = {name.strip() for name in os.environ.get("BERTH_TEST_SKIP", "").split(",")} - {""}
    unknown = named - set(CHECKS)
    if unknown:
        raise pytest.UsageError(f"BERTH_TEST_SKIP names {sorted(unknown)}; known parts: {sorted(CHECKS)}")
    return named


def uses_database(item: pytest.Item) -> bool:
    names = set(getattr(item, "fixturenames", ()))
    return item.get_closest_marker("django_db") is not None or bool(names & DATABASE_FIXTURES)


def needed(item: pytest.Item) -> set[str]:
    """The parts that a test stands on, by its markers and its fixtures."""
    names = set(getattr(item, "fixturenames", ()))
    parts = {part for fixture, part in FIXTURES.items() if fixture in names}
    parts |= {part for part in CHECKS if item.get_closest_marker(part)}
    if uses_database(item):
        parts |= {"redis"} | ({"postgres"} if database() == "postgresql" else set())
    return parts


@cache
def missing(part: str) -> str | None:
    """Why this machine cannot give the part, with the cure; None when it can."""
    return CHECKS[part]()


def _postgres() -> str | None:
    return None if postgres_binaries() else "PostgreSQL is not installed (apt-get install postgresql)"


def _pooler() -> str | None:
    return None if pooler_binary() else "PgBouncer is not installed (apt-get install pgbouncer)"


def _docker() -> str | None:
    if os.geteuid() != 0:
        return "a Docker Engine of the tests' own needs root"
    wanted = ("dockerd", "containerd", "ip", "busybox", "docker-registry", "bindfs")
    absent = [name for name in wanted if not shutil.which(name)]
    return (
        f"not installed: {', '.join(absent)} (apt-get install docker.io iproute2 busybox-static docker-registry bindfs)"
        if absent
        else None
    )


def _browser() -> str | None:
    return None if chromium_binary() else "Chromium is not installed (apt-get install chromium)"


def _prometheus() -> str | None:
    absent = [name for name in ("prometheus", "prometheus-alertmanager") if not shutil.which(name)]
    return f"not installed: {', '.join(absent)} (apt-get install {' '.join(absent)})" if absent else None


def _redis_tls() -> str | None:
    return None if tls_binary() else "Debian's Redis is not installed (apt-get install redis-tools)"


def _gpu() -> str | None:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return f"no NVIDIA GPU here ({error})"
    return None


CHECKS: dict[str, Callable[[], str | None]] = {
    "postgres": _postgres,
    "pooler": _pooler,
    "redis": lambda: None,
    "redis_tls": _redis_tls,
    "docker": _docker,
    "browser": _browser,
    "prometheus": _prometheus,
    "npm": openpai_sdk.install,
    "nni": openpai_nni.install,
    "root": lambda: None if os.geteuid() == 0 else "needs root",
    "gpu": _gpu,
}
