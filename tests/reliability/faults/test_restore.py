"""Everything of the portal is destroyed under running jobs, and comes back from a backup: into another kind of
database, with an empty Redis, beside agents that never stopped."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.cluster.invariants import assert_log, assert_no_orphan, counted, counting
from tests.support.cluster.stack import Agent, Stack
from tests.support.people.person import alice, carol
from tests.support.run.waiting import wait_until
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.migrated import sqlite_copy
from tests.support.services.postgres import PostgresServer
from tests.support.services.services import Services

PORTAL = ("web", "scheduler", "reports", "control")
GPUS = 4
ARCHIVED = "SELECT count(*) FROM jobs_taskattempt WHERE log_complete AND archived_to >= log_end AND archived_to > 0"


@pytest.fixture(params=["process", pytest.param("docker", marks=[pytest.mark.soak, pytest.mark.docker])])
def stack(request: pytest.FixtureRequest, services: Services) -> Iterator[Stack]:
    engine: DockerEngine | None = request.getfixturevalue("running_docker") if request.param == "docker" else None
    agents = [Agent(name="here", runtime=request.param, gpus=f"simulated:{GPUS}xA100-80GB")]
    url = sqlite_copy(services.new_folder("restored") / "berth.sqlite3")
    made = Stack(services, database_url=url, docker_url=engine.url if engine else "", agents=agents)
    with closing(made):
        made.start()
        yield made
        if engine:
            assert_no_orphan(engine, ["here"])


UNTIL = ('while [ ! -e "$BERTH_JOB_DIR/over" ]; do sleep 0.2; done', "echo over")


def let_end(stack: Stack, name: str) -> None:
    """A job of Alice's that waits for it."""
    (stack.jobs_root / "alice" / f"{name}-1" / "over").touch()


def destroy(stack: Stack) -> None:
    for name in PORTAL:
        stack.kill9(name)
    stack.redis.restart_empty()
    shutil.rmtree(stack.folder / "data")
    for file in Path(stack.database_url.removeprefix("sqlite:///")).parent.iterdir():
        file.unlink()


def test_jobs_run_on_end_as_they_ended_and_what_nobody_knows_is_fenced(
    stack: Stack, postgres: PostgresServer, tmp_path: Path
) -> None:
    user, root = alice(stack), stack.client("root")
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "main.sh").write_text("echo the code of before\n")
    code = user.berth.code.upload(folder).id
    done = user.run("echo done", name="done")
    user.wait(done, "succeeded")
    # What is archived after the backup and lies in none is lost with the portal's disk.
    wait_until(lambda: stack.sql(ARCHIVED) == [(1,)], "its log to be archived")
    onward = user.run(*counting(0.2), *UNTIL, name="onward")
    ends = user.run(*UNTIL, name="ends")
    for job in (onward, ends):
        user.wait(job, "running")
    waits = user.run("echo at last", name="waits", gpu=2)
    file = tmp_path / "berth.tar"
    assert "keys: 3 files, code: 1 files" in stack.manage("backup", str(file))
    assert file.stat().st_mode & 0o777 == 0o600

    let_end(stack, "ends")
    user.wait(ends, "succeeded")
    unknown = carol(stack).run("sleep 600", name="unknown")
    carol(stack).wait(unknown, "running")
    (gpu,) = [gpu for gpu in root.get("/gpus").json()["results"] if "carol/unknown" in str(gpu)]
    destroy(stack)

    stack.move_to(postgres.create_database("restored"))
    said = stack.manage("restore", str(file))
    assert "Restored to" in said
    for name in PORTAL:
        stack.processes[name].start()
    stack.wait_ready()
    user = alice(stack)
    assert user.wait(ends, "succeeded")["retries"] == 0
    let_end(stack, "onward")
    assert user.wait(onward, "succeeded")["retries"] == 0
    assert_log(user, onward, [*counted(), "over"])
    assert user.log_lines(done) == ["done"]
    assert root.get(f"/jobs/{unknown}").status_code == 404

    def fault() -> str:
        (now,) = [one for one in root.get("/gpus").json()["results"] if one["uuid"] == gpu["uuid"]]
        return str(now["fault"])

    wait_until(lambda: "does not know" in fault(), "its GPU to be fenced")
    user.wait(waits, "succeeded")
    fresh = user.run("sh main.sh", name="fresh", gpu=2, berth={"code": code})
    assert fresh > unknown + 1000, "no job gets the number of one that was lost"
    user.wait(fresh, "succeeded")
    wait_until(lambda: user.log_lines(fresh) == ["the code of before"], "its log")

    (stranger,) = root.get("/nodes/here").json()["unknown_containers"]
    assert (stranger["gpus"], stranger["folder"]) == ([gpu["uuid"]], str(stack.jobs_root / "carol" / "unknown-1"))
    path = f"/nodes/here/unknown-containers/{stranger['attempt']}/stop"
    assert root.post(path, json={"reason": "after the restore"}).status_code == 204
    wait_until(lambda: not root.get("/nodes/here").json()["unknown_containers"], "its end")
    assert fault() == ""
