"""A real portal with a cluster of scripted nodes, and the client and the command as its people use them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from berth import Client
from tests.support.proxy import CuttingProxy

if TYPE_CHECKING:
    from portal.accounts.models import User
    from tests.support.live_web import LiveWeb
    from tests.support.world import World

ROOT = Path(__file__).parents[2]


@dataclass
class Shell:
    """Where somebody types `berth`: a home of their own, and the environment."""

    home: Path
    url: str = ""
    token: str = ""
    more: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("BERTH_", "XDG_"))}
        said = {"BERTH_URL": self.url, "BERTH_TOKEN": self.token, "COLUMNS": "200"}
        own = {"HOME": str(self.home), "PYTHONPATH": str(ROOT / "client"), "NO_PROXY": "127.0.0.1"}
        return {**kept, **own, **{name: value for name, value in said.items() if value}, **self.more}

    def start(self, *words: str) -> subprocess.Popen[str]:
        """`berth` with these words, running on."""
        return subprocess.Popen(
            [sys.executable, "-m", "berth.cli.app", *words], cwd=self.home, env=self.environment(), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def berth(self, *words: str, typed: str = "", code: int = 0) -> str:
        """What `berth` prints: its output where it shall succeed, else what it complains of."""
        process = self.start(*words)
        try:
            out, errors = process.communicate(typed, timeout=60)
        finally:
            process.kill()
        assert process.returncode == code, f"exit {process.returncode}\n{out}\n{errors}"
        assert "Traceback" not in errors
        return errors if code else out


def token_for(user: User, **changes: object) -> str:
    """The secret of a new token."""
    from django.utils import timezone

    from portal.accounts.models import Scope
    from portal.accounts.services import token_create

    options = {"scope": Scope.ADMIN, "expires_at": None, **changes}
    return token_create(user=user, name="tests", now=timezone.now(), **options).secret  # type: ignore[arg-type]


@pytest.fixture
def world(transactional_db: None) -> World:
    from tests.support.world import World

    return World()


@pytest.fixture
def web(world: World) -> Iterator[LiveWeb]:
    from tests.support.live_web import live_web

    with live_web() as running:
        yield running


@pytest.fixture
def url(web: LiveWeb) -> str:
    return f"http://{web.host}"


@pytest.fixture
def token(world: World) -> str:
    """Alice's."""
    return token_for(world.user)


@pytest.fixture
def berth(url: str, token: str) -> Iterator[Client]:
    """Alice's client."""
    with Client(url, token, trust_env=False) as made:
        yield made


@pytest.fixture
def proxy(url: str) -> Iterator[CuttingProxy]:
    made = CuttingProxy(url)
    yield made
    made.close()


@pytest.fixture
def shell(tmp_path: Path, url: str, token: str) -> Shell:
    """Alice's terminal."""
    return Shell(tmp_path, url, token)
