"""The whole of Berth as real processes: web, scheduler, workers, and an agent for each node."""

import contextlib
import json
import os
import sqlite3
import ssl
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg

from nodes.agent.config.options import key_make
from tests.support.run.waiting import wait_until
from tests.support.services.forks import Forks
from tests.support.services.processes import Process, finished, free_port
from tests.support.services.services import Services

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
CELERY = [str(BIN / "celery"), "-A", "portal", "worker", "--pool", "threads", "--loglevel", "INFO"]
CELERY += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
WORKERS = {"scheduler": ["-B", "-c", "1"], "reports": ["-c", "2"], "control": ["-c", "4"]}
"""Queue, which is the process's name, and how it is served."""


@dataclass(frozen=True, kw_only=True)
class Agent:
    """A node of the stack. `gpus` as the agent's own option; `env` is added to its environment; `redis_port`: of what
    lies between it and Redis, if anything does."""

    name: str
    gpus: str = "simulated:4xA100-80GB"
    runtime: str = "docker"
    ports: str = "21000-21999"
    redis_port: int = 0
    env: tuple[tuple[str, str], ...] = ()


PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients that speak plain HTTP: to read this machine's certificates takes longer than a request."""
TWO_AGENTS = (Agent(name="gpu01", ports="21000-21499"), Agent(name="gpu02", ports="21500-21999"))


def _healthy(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{url}/healthz", timeout=2, trust_env=False, verify=PLAIN).is_success
    return False


class Stack:
    """One Berth of its own: database, Redis, folder and processes.

    `processes` has `web`, `scheduler`, `reports`, `control` and one entry for each agent by its name; each can be
    killed, suspended and started again. `env` is given to every process of the portal.
    """

    def __init__(
        self,
        services: Services,
        *,
        database_url: str,
        docker_url: str = "",
        agents: Sequence[Agent] = TWO_AGENTS,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = services.new_folder("stack")
        self.redis = services.new_redis(self.folder)
        self.database_url = database_url
        self.agents = agents
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.storages = self.folder / "mnt"  # as the docs have it: storages lie below the folder that a server names
        self.jobs_root = self.storages / "jobs"
        self.tokens: dict[str, str] = {}
        self.sessions: dict[str, str] = {}  # of who has signed in with a browser: name -> session id
        self.processes: dict[str, Process] = {}
        self._services = services
        self._forks: Forks | None = None
        services.stacks.append(self)
        self._docker_url = docker_url
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("BERTH_")},
            "DJANGO_SETTINGS_MODULE": "portal.settings",
            "BERTH_DATA_DIR": str(self.folder / "data"),
            "BERTH_DATABASE_URL": database_url,
            "BERTH_REDIS_URL": self.redis.url,
            "BERTH_URL": self.url,
            "BERTH_STATIC_DIR": str(services.static),
            **(env or {}),
        }

    # ------------------------------------------------------------ its life

    def start(self, *only: str) -> None:
        """Everything up, the nodes reporting, each virtual cluster with its quota; ``only`` these processes, if any."""
        for folder in (self.storages, self.jobs_root):
            folder.mkdir()
            folder.chmod(0o755)
        self._forks = self._services.portal(self.folder, self.environment)
        self.redis.start()
        seed, made = self._seeding()
        try:
            wait_until(lambda: made.exists() or not seed.is_running(), "the database to be prepared", deadline_s=120)
            assert made.exists(), "the database could not be prepared"
            told = json.loads(made.read_bytes())
            self.tokens = told["tokens"]
            self._make_processes(told["portal_public_key"], told["redis"])
            self.processes = {name: one for name, one in self.processes.items() if not only or name in only}
            for process in self.processes.values():
                process.start()
            self.wait_ready()
            assert seed.wait_exit(120) == 0, "the quotas could not be set"
        except Exception as error:
            for name, tail in (("seed", seed.tail()), *self.tails()):
                error.add_note(f"--- {name}\n{tail}")
            raise
        finally:
            seed.kill()

    def _seeding(self) -> tuple[Process, Path]:
        """The process that prepares the database, which has begun, and the file in which it says what it made."""
        keys = {agent.name: key_make(self.state_of(agent) / "node.key").public for agent in self.agents}
        given, made = self.folder / "given.json", self.folder / "made.json"
        given.write_text(json.dumps({"nodes": keys, "jobs_root": str(self.jobs_root)}))
        command = [sys.executable, "-m", "tests.support.cluster.seed", str(given), str(made)]
        seed = self._services.new_process("seed", command, self.folder, self.environment, self._forks)
        seed.start()
        return seed, made

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
        if self._forks:
            self._forks.close()
        self.redis.kill()
        self._services.stacks.remove(self)

    def wait_ready(self) -> None:
        """Wait until the web answers and every node is known as healthy."""
        wait_until(self._answers_or_ended, "the web process", deadline_s=60)
        sql = "SELECT count(*) FROM hardware_node WHERE health = 'healthy'"
        wait_until(
            lambda: self.sql(sql)[0][0] == len(self.agents),
            "every node to report",
            deadline_s=max(60, 15 * len(self.agents)),
        )

    def answers(self) -> bool:
        return _healthy(self.url)

    def _answers_or_ended(self) -> bool:
        ended = [name for name, process in self.processes.items() if not process.is_running()]
        assert not ended, f"ended by themselves: {', '.join(ended)}"
        return self.answers()

    def kill9(self, name: str) -> None:
        self.processes[name].kill()

    def restart(self, name: str, **more_env: str) -> None:
        """Kill it when it runs, and start it again, with `more_env` for this start."""
        self.processes[name].kill()
        self.processes[name].start(**more_env)

    def move_to(self, database_url: str) -> None:
        """Use another database from each process's next start on."""
        self.database_url = database_url
        for env in (self.environment, *(process.env or {} for process in self.processes.values())):
            if "BERTH_DATABASE_URL" in env:
                env["BERTH_DATABASE_URL"] = database_url

    def tails(self) -> Iterator[tuple[str, str]]:
        """The end of every process's output, for a failed test's report."""
        for name, process in self.processes.items():
            yield name, process.tail()

    def join(self, agent: Agent, told: Mapping[str, str], key: str) -> Process:
        """Start one more agent, with the key and the variables that the portal told."""
        state = self.state_of(agent)
        state.mkdir()
        (state / "node.key").write_text(f"{key}\n")
        env = self._agent_env(agent, told["BERTH_NODE_PORTAL_PUBLIC_KEY"], told["BERTH_NODE_REDIS_URL"])
        self._add_agent(agent.name, {**env, **told})
        self.processes[agent.name].start()
        return self.processes[agent.name]

    def web_beside(self, port: int, **env: str) -> str:
        """One more web process, with `env` in its environment; returns its address."""
        url, name = f"http://127.0.0.1:{port}", f"web-{port}"
        command = [str(BIN / "uvicorn"), "portal.asgi:application", "--port", str(port), "--no-access-log"]
        self._add(name, command, {**self.environment, "BERTH_URL": url, **env})
        self.processes[name].start()
        wait_until(lambda: _healthy(url), "the other web process", deadline_s=60)
        return url

    def double(self) -> str:
        """A second one of each process of the portal, `web2` and so on, with the very same settings. Returns the second
        web process's address."""
        port = free_port()
        self._add_portal("2", port)
        for name in ("web", *WORKERS):
            self.processes[f"{name}2"].start()
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: _healthy(url), "the second web process", deadline_s=60)
        return url

    # ------------------------------------------------------------ ways in

    def client(self, user: str, *, url: str = "") -> httpx.Client:
        """REST as this user, of the first web process or the one at `url`. Paths are below /api/v1."""
        headers = {"Authorization": f"Bearer {self.tokens[user]}"}
        base = f"{url or self.url}/api/v1"
        return httpx.Client(base_url=base, headers=headers, timeout=30, trust_env=False, verify=PLAIN)

    def manage(self, *words: str) -> str:
        """A management command in the stack's environment. Returns what it prints."""
        return self._said([sys.executable, "manage.py", *words])

    def script(self, module: str, *words: str) -> str:
        """A module of the tests that prepares something, in the stack's environment. Returns what it prints."""
        return self._said([sys.executable, "-m", module, *words])

    def _said(self, command: list[str]) -> str:
        """What a command prints that succeeds."""
        done = finished(command, self.environment, ROOT, self._forks)
        assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}"
        return done.stdout

    def sql(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows straight from the stack's database: what holds there, whoever answers or does not."""
        if self.database_url.startswith("sqlite"):
            path = urlsplit(self.database_url).path[1:]
            with contextlib.closing(sqlite3.connect(path, timeout=20, isolation_level=None)) as connection:
                return connection.execute(query.replace("%s", "?"), values).fetchall()
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            return connection.execute(query.encode(), values).fetchall()

    # ------------------------------------------------------------ its parts

    def state_of(self, agent: Agent) -> Path:
        return self.folder / agent.name

    def _make_processes(self, portal_public_key: str, redis: Mapping[str, str]) -> None:
        self._add_portal("", self.port)
        for agent in self.agents:
            self._add_agent(agent.name, self._agent_env(agent, portal_public_key, redis[agent.name]))

    def _add_portal(self, which: str, port: int) -> None:
        """One process of each kind; `which` is the end of their names."""
        uvicorn = [str(BIN / "uvicorn"), "portal.asgi:application", "--port", str(port), "--no-access-log"]
        self._add(f"web{which}", uvicorn)
        for name, more in WORKERS.items():
            self._add(f"{name}{which}", [*CELERY, "-Q", name, *more, "-n", f"{name}{which}@berth"])

    def _add(self, name: str, command: list[str], env: Mapping[str, str] | None = None) -> None:
        made = self._services.new_process(name, command, self.folder, dict(env or self.environment), self._forks)
        self.processes[name] = made

    def _add_agent(self, name: str, env: dict[str, str]) -> None:
        command, forks = [sys.executable, "-m", "nodes"], self._services.agents
        self.processes[name] = self._services.new_process(name, command, self.folder, env, forks)

    def _ports(self, agent: Agent) -> str:
        return "-".join(str(int(port) + self._services.ports_shift) for port in agent.ports.split("-"))

    def _agent_env(self, agent: Agent, portal_public_key: str, redis_url: str) -> dict[str, str]:
        """What an agent gets: nothing of the portal's environment but what it is told by its own options."""
        options = {
            "NAME": agent.name,
            "REDIS_URL": redis_url.replace(f":{self.redis.port}/", f":{agent.redis_port or self.redis.port}/"),
            "STATE_DIR": str(self.state_of(agent)),
            "PORTAL_PUBLIC_KEY": portal_public_key,
            "RUNTIME": agent.runtime,
            **({"DOCKER_URL": self._docker_url} if self._docker_url else {}),
            "GPUS": agent.gpus,
            "ADDRESS": "127.0.0.1",
            "INTERFACE": "lo",
            "PORT_RANGE": self._ports(agent),
            "MOUNT_ROOTS": str(self.storages),
            "DISK_CLEAN": "off",
            "DISK_FULL_PERCENT": "0",
            "HOME_DIR": str(self.state_of(agent) / "homes"),
        }
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("BERTH_", "DJANGO_"))}
        return {**plain, **{f"BERTH_NODE_{name}": value for name, value in options.items()}, **dict(agent.env)}
