"""Freezes what a release leaves behind, for tests that bring it up to the present: run in the release's own tree.

    git worktree add --detach /tmp/release COMMIT && cp tests/upkeep/freeze.py /tmp/release/tests/
    cd /tmp/release && COMMIT=$(git rev-parse HEAD) python -m tests.freeze /tmp/NAME

It starts the release's whole stack, once on SQLite and once on PostgreSQL, with a node whose tasks are plain processes;
lets people run jobs to each of their ends, leaves one that runs and one that waits with a secret, and packs for each
database: the database itself, the keys of portal and node, the archived logs, and `told.json`, what there is to be
found (NAME.tar.xz). Beside it the sources of portal and agent (NAME.sources.tar.xz), for an upgrade while jobs run.
"""

import json
import os
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.support.person import Person, alice, carol
from tests.support.postgres import postgres_binaries
from tests.support.seed import PASSWORD
from tests.support.services import Services
from tests.support.stack import Agent, Stack
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[1]
HUB = {"hub": "a-secret-of-alice"}
TRAINER = "sh -c 'trap \"exit 0\" TERM; echo training; while :; do sleep 0.2; done'"
NOT_ARCHIVED = "SELECT count(*) FROM jobs_taskattempt WHERE state = 'terminated' AND archived_to < log_end"


def main() -> None:
    target = Path(sys.argv[1])
    services = Services()
    try:
        services.fill_environment()
        folder = Path(tempfile.mkdtemp(dir=services.folder))
        services.postgres.start()
        urls = {
            "sqlite": f"sqlite:///{services.folder}/frozen.sqlite3",
            "postgresql": services.postgres.create_database("frozen"),
        }
        for name, url in urls.items():
            freeze(services, url, folder / name)
        pack(target.with_name(f"{target.name}.tar.xz"), folder, sorted(folder.rglob("*")))
        pack(target.with_name(f"{target.name}.sources.tar.xz"), ROOT, sources())
    finally:
        services.close()


def sources() -> list[Path]:
    """What runs of portal and agent, but for the pages' files."""
    listed = ["git", "ls-files", "manage.py", "nodes", "portal", "scheduling"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return [ROOT / name for name in names]


def pack(target: Path, folder: Path, paths: list[Path]) -> None:
    with tarfile.open(target, "w:xz") as tar:
        for path in paths:
            tar.add(path, str(path.relative_to(folder)), recursive=False, filter=_nobodys)
    print(f"{target}: {target.stat().st_size / 1e3:.0f} kB")


def freeze(services: Services, url: str, folder: Path) -> None:
    """One database of a release, with its keys and logs."""
    folder.mkdir()
    with running(services, url) as stack:
        told = fill(stack)
        stack.processes["scheduler"].stop()
        wait_until(lambda: stack.sql(NOT_ARCHIVED)[0][0] == 0, "the logs to be archived")
        for name in ("web", "reports", "control"):
            stack.processes[name].stop()
        (folder / "told.json").write_text(json.dumps(told, indent=1))
        save_database(url, folder)
        for part in ("data/keys", "data/logs", "gpu01/node.key"):
            subprocess.run(["cp", "-a", str(stack.folder / part), str(folder)], check=True)
        for name in ("web", "reports", "control", "scheduler"):
            stack.processes[name].start()
        stack.wait_ready()
        for person in (alice(stack), carol(stack)):
            person.clear()


@contextmanager
def running(services: Services, url: str) -> Iterator[Stack]:
    """The stack, ended at last with what it runs."""
    agent = Agent(name="gpu01", runtime="process", gpus="simulated:4xA100-80GB")
    with closing(Stack(services, database_url=url, agents=(agent,))) as stack:
        stack.start()
        yield stack


def fill(stack: Stack) -> dict[str, Any]:
    """Jobs of two people, to each of their ends. What there is to be found of them."""
    one, other = alice(stack), carol(stack)
    jobs = {
        "done": (one, one.run("for i in 1 2 3; do echo line $i of $BERTH_TASK_INDEX; done", name="done", instances=2)),
        "failed": (one, one.run("echo 'no such data set'", "exit 3", name="failed")),
        "secret": (one, one.run("echo <% $secrets.hub %> | wc -c", name="secret", secrets=HUB)),
        "vision": (other, other.run("echo of another team", name="vision")),
    }
    for name, state in (("done", "succeeded"), ("failed", "failed"), ("secret", "succeeded"), ("vision", "succeeded")):
        jobs[name][0].wait(jobs[name][1], state)
    stopped = one.run(TRAINER, name="stopped")
    one.wait_line(stopped, "training")
    one.stop(stopped)
    one.wait(stopped, "stopped")
    running = one.run(TRAINER, name="running", gpu=2)
    one.wait_line(running, "training")
    waiting = one.run("echo <% $secrets.hub %> | wc -c", name="waiting", gpu=2, secrets=HUB)
    one.wait_for(waiting, lambda job: job["waiting"] and job["waiting"]["code"])
    jobs |= {"stopped": (one, stopped), "running": (one, running), "waiting": (one, waiting)}
    return {
        "commit": os.environ.get("COMMIT", ""),
        "password": PASSWORD,
        "tokens": stack.tokens,
        "secrets": HUB,
        "jobs": {name: found(*job) for name, job in jobs.items()},
    }


def found(person: Person, job: int) -> dict[str, Any]:
    """What the release itself tells of a job."""
    told = person.job(job)
    logs = [person.log_lines(job, task) for task in range(len(person.tasks(job)))]
    return {"id": job, "user": person.name, "state": told["state"], "label": told["label"], "logs": logs}


def save_database(url: str, folder: Path) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.execute("VACUUM INTO ?", [str(folder / "berth.sqlite3")])
        return
    binaries = postgres_binaries()
    assert binaries
    dump = [str(binaries / "pg_dump"), "--no-owner", "--no-privileges", url]
    told = subprocess.run(dump, check=True, capture_output=True, text=True).stdout
    newer = ("\\restrict ", "\\unrestrict ")  # what only the newest psql understands
    kept = [line for line in told.splitlines() if not line.startswith(newer)]
    (folder / "berth.sql").write_text("\n".join(kept) + "\n")


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main()
