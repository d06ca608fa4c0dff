"""An upgrade while jobs run, as docs/install.md has it: a release's portal is stopped, its database migrated, the
present one started, and the servers' agents follow later. The release is a real one: its own sources (`freeze.py`)."""

import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nodes.protocol import PortalKey
from tests.support.person import Person, alice, job_file
from tests.support.postgres import PostgresServer
from tests.support.services import Services
from tests.support.stack import BIN, CELERY, ROOT, Agent, Stack
from tests.support.waiting import wait_until

pytestmark = pytest.mark.soak
RELEASES = sorted((Path(__file__).parent / "releases").glob("*.sources.tar.xz"))
COUNT = "i=0; while [ $i -lt {} ]; do echo line $i; sleep 0.2; i=$((i+1)); done"
LONG, SHORT = 400, 60
"""Lines: one counts until the upgrade is through, one ends while there is no portal."""


class Installation(Stack):
    """What a release left, to be run by its own sources or by the present ones."""

    def __init__(self, services: Services, left: Path, sources: Path, database_url: str) -> None:
        agent = Agent(name="gpu01", runtime="process")
        super().__init__(services, database_url=database_url, agents=(agent,))
        self.told = json.loads((left / "told.json").read_text())
        self.tokens = self.told["tokens"]
        self.sources = sources
        data = self.folder / "data"
        for part in ("keys", "logs"):
            shutil.copytree(left / part, data / part)
        self.state_of(agent).mkdir()
        shutil.copy(left / "node.key", self.state_of(agent) / "node.key")
        self.jobs_root.mkdir(mode=0o755)
        self.sql("UPDATE clusters_storage SET root = %s RETURNING id", str(self.jobs_root))
        self.redis.start()
        key = PortalKey.load((data / "keys" / "portal.key").read_text().strip()).public
        queues = {"scheduler": ["-B", "-c", "1"], "reports": ["-c", "2"], "control": ["-c", "4"]}
        commands = {"web": [str(BIN / "uvicorn"), "portal.asgi:application", "--port", str(self.port)]}
        commands |= {name: [*CELERY, "-Q", name, "-n", f"{name}@berth", *more] for name, more in queues.items()}
        self.portal = tuple(commands)
        environments = dict.fromkeys(commands, self.environment)
        commands["gpu01"] = [sys.executable, "-m", "nodes"]
        environments["gpu01"] = self._agent_env(agent, key, self.redis.url)
        for name, command in commands.items():
            self.processes[name] = services.new_process(name, command, self.folder, environments[name])

    def run(self, folder: Path, *names: str) -> None:
        """Start these processes with the sources there."""
        for name in names:
            self.processes[name].cwd = folder
            self.processes[name].start()
        self.wait_ready()


@pytest.fixture(params=["sqlite", "postgresql"])
def installation(
    request: pytest.FixtureRequest, services: Services, postgres: PostgresServer, tmp_path: Path
) -> Iterator[Installation]:
    packed = RELEASES[-1]
    for name, path in (("sources", packed), ("left", packed.with_name(packed.name.replace(".sources", "")))):
        with tarfile.open(path) as tar:
            tar.extractall(tmp_path / name)
    left, sources = tmp_path / "left" / request.param, tmp_path / "sources"
    url = f"sqlite:///{left}/berth.sqlite3"
    if request.param == "postgresql":
        url = postgres.create_database("upgrade")
        postgres.restore("upgrade", left / "berth.sql")
    with closing(Installation(services, left, sources, url)) as made:
        yield made


def counted(number: int) -> list[str]:
    return [f"line {one}" for one in range(number)]


def submitted(user: Person, name: str, lines: int) -> int:
    """A job that counts, on the release's own portal, once it runs."""
    text = job_file(COUNT.format(lines), vc="research", name=name)
    answer = user.http.post("/jobs", content=text, headers={"Content-Type": "application/yaml"})
    assert answer.is_success, answer.text
    job = int(answer.json()["id"])
    wait_until(lambda: user.http.get(f"/jobs/{job}").json()["state"] == "running", name, deadline_s=120)
    return job


def test_jobs_run_on_and_agents_of_the_release_before_are_served(installation: Installation) -> None:
    installation.run(installation.sources, *installation.portal, "gpu01")
    before = alice(installation)
    jobs = {submitted(before, "long", LONG): LONG, submitted(before, "short", SHORT): SHORT}
    for name in installation.portal:
        installation.processes[name].stop(60)
    migrate = [sys.executable, "manage.py", "migrate", "--no-input"]
    subprocess.run(migrate, cwd=ROOT, env=installation.environment, check=True, capture_output=True)
    installation.run(ROOT, *installation.portal)

    user = alice(installation)
    waited = installation.told["jobs"]["waiting"]["id"]
    user.wait(waited, "succeeded", deadline_s=180)
    assert user.log_lines(waited) == ["18"], "its secret was unsealed"
    adopted = user.run(COUNT.format(SHORT), name="adopted")
    user.wait(adopted, "running")
    installation.processes["gpu01"].stop(60)
    installation.run(ROOT, "gpu01")
    for job, lines in {**jobs, adopted: SHORT}.items():
        user.wait(job, "succeeded", deadline_s=300)
        assert user.log_lines(job) == counted(lines)
        assert len(user.attempts(job)) == 1
    for name in installation.portal:
        assert "Traceback" not in installation.processes[name].log.read_text(), name


@pytest.mark.parametrize("installation", ["sqlite"], indirect=True)
def test_an_agent_of_the_next_release_serves_the_portal_of_this_one(installation: Installation) -> None:
    """Servers whose agents were brought up first: they adopt what runs, and run and stop what the portal wants."""
    installation.run(installation.sources, *installation.portal, "gpu01")
    user = alice(installation)
    adopted = submitted(user, "adopted", SHORT)
    installation.processes["gpu01"].stop(60)
    installation.run(ROOT, "gpu01")
    later, stopped = submitted(user, "later", SHORT), submitted(user, "stopped", LONG)
    assert user.http.post(f"/jobs/{stopped}/stop", json={}).is_success
    for job, state in ((adopted, "succeeded"), (later, "succeeded"), (stopped, "stopped")):
        wait_until(lambda job=job, state=state: user.http.get(f"/jobs/{job}").json()["state"] == state,  # type: ignore[misc]
                   f"job {job} to be {state}", deadline_s=180)  # fmt: skip
        if state == "succeeded":
            assert user.log_lines(job) == counted(SHORT)
        assert len(user.attempts(job)) == 1
    for name in installation.portal:
        said = installation.processes[name].log.read_text()
        assert "Traceback" not in said, name
        assert "cannot be read" not in said, name
