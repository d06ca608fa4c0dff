"""A real Prometheus and Alertmanager, with the files of `docs/monitoring`, scrape a whole Berth and tell of what is
wrong; what the boards of `docs/grafana` ask for is there."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.migrated import sqlite_copy
from tests.support.person import alice
from tests.support.processes import free_port
from tests.support.receiver import Receiver
from tests.support.services import Services
from tests.support.stack import ROOT, Agent, Stack
from tests.support.waiting import wait_until

pytestmark = pytest.mark.prometheus
MONITORING, GRAFANA = ROOT / "docs" / "monitoring", ROOT / "docs" / "grafana"
WORKERS = ("scheduler", "reports", "control")
LATER = {"berth_backup_age_seconds"}
"""What is there only once something has happened that does not happen here."""
NAME = re.compile(r"\b(?:berth|process)_[a-z0-9_]+")


@dataclass
class Monitored:
    """A stack, what scrapes it, and where its messages arrive."""

    stack: Stack
    url: str
    receiver: Receiver

    def ask(self, path: str, **query: str) -> Any:
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=query, timeout=10, trust_env=False)
        assert answer.status_code == httpx.codes.OK, answer.text
        return answer.json()["data"]

    def value(self, query: str) -> float | None:
        found = self.ask("query", query=query)["result"]
        return float(found[0]["value"][1]) if found else None


@pytest.fixture(scope="module")
def monitored(services: Services) -> Iterator[Monitored]:
    agents = [Agent(name="here", runtime="process")]
    stack = Stack(services, database_url=sqlite_copy(services.new_folder("watched") / "berth.sqlite3"), agents=agents)
    ports = {name: free_port() for name in WORKERS}
    folder = services.new_folder("prometheus")
    with closing(stack), closing(Receiver()) as receiver:
        stack.start()
        for name, port in ports.items():
            stack.restart(name, BERTH_METRICS_PORT=str(port))
        (folder / "berth-token").write_text(stack.tokens["root"])
        alertmanager, prometheus = free_port(), free_port()
        _write_alertmanager(folder, receiver)
        _write_prometheus(folder, stack, ports, alertmanager)
        processes = [
            services.new_process("alertmanager", _alertmanager(folder, alertmanager), folder, dict(os.environ)),
            services.new_process("prometheus", _prometheus(folder, prometheus), folder, dict(os.environ)),
        ]
        for process in processes:
            process.start()
        made = Monitored(stack, f"http://127.0.0.1:{prometheus}", receiver)
        wait_until(lambda: _ready(made.url), "Prometheus", deadline_s=60)
        yield made
        for process in processes:
            process.kill()


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready", timeout=2, trust_env=False).is_success
    except httpx.HTTPError:
        return False


def _alertmanager(folder: Path, port: int) -> list[str]:
    return [
        "prometheus-alertmanager", f"--config.file={folder}/alertmanager.yml", f"--storage.path={folder}/told",
        f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=",
    ]  # fmt: skip


def _prometheus(folder: Path, port: int) -> list[str]:
    return [
        "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/series",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip


def _write_alertmanager(folder: Path, receiver: Receiver) -> None:
    """The documents' own, with the addresses of here and less patience."""
    config = yaml.safe_load((MONITORING / "alertmanager.yml").read_text())
    config["receivers"][0]["webhook_configs"][0]["url"] = receiver.url
    config["route"]["group_wait"] = "1s"
    (folder / "alertmanager.yml").write_text(yaml.safe_dump(config))


def _write_prometheus(folder: Path, stack: Stack, ports: dict[str, int], alertmanager: int) -> None:
    shutil.copy(MONITORING / "rules.yml", folder)
    config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{alertmanager}"]
    portal, workers = config["scrape_configs"]
    portal["static_configs"][0]["targets"] = [f"127.0.0.1:{stack.port}"]
    for one in workers["static_configs"]:
        one["targets"] = [f"127.0.0.1:{ports[one['labels']['process']]}"]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))


def test_every_process_is_scraped_and_what_boards_and_rules_ask_for_is_there(monitored: Monitored) -> None:
    user = alice(monitored.stack)
    job = user.run("echo hello", name="watched")
    user.wait(job, "succeeded")
    wait_until(lambda: monitored.value("count(up == 1)") == 4, "every process to be scraped")
    wait_until(
        lambda: (monitored.value('berth_scheduler_decisions_total{what="started"}') or 0) >= 1,
        "the start to be counted",
    )
    wait_until(lambda: monitored.value('berth_job_queued_seconds_count{vc="research"}') == 1, "its wait")
    wait_until(lambda: monitored.value("count(berth_gpu_utilisation_percent)") == 4, "readings of its GPUs")
    assert monitored.value('sum(berth_gpus{place="free"})') == 4
    assert monitored.value("berth_log_lag_bytes") is not None
    assert (monitored.value('berth_reports_total{result="taken"}') or 0) > 0
    known = set(monitored.ask("label/__name__/values"))
    for file, text in _queries():
        asked = set(NAME.findall(text))
        assert asked, f"{file}: {text}"
        assert asked <= known | LATER, f"{file} asks for {asked - known}"
        monitored.ask("query", query=text.replace('node=~"$node"', 'node=~".+"'))


def _queries() -> Iterator[tuple[str, str]]:
    for path in sorted(GRAFANA.glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                yield path.name, target["expr"]
    for group in yaml.safe_load((MONITORING / "rules.yml").read_text())["groups"]:
        for rule in group["rules"]:
            if "up{" not in rule["expr"]:
                yield "rules.yml", rule["expr"]


def test_what_is_wrong_arrives_where_alertmanager_sends_it(monitored: Monitored) -> None:
    root = monitored.stack.client("root")
    assert root.patch("/nodes/here", json={"intent": "cordoned", "reason": "fans"}).status_code == 200

    def told() -> list[dict[str, str]]:
        return [one["labels"] for request in monitored.receiver.received for one in request.document["alerts"]]

    wait_until(lambda: any(one.get("code") == "servers_closed" for one in told()), "the message", deadline_s=90)
    (first,) = {one["alertname"] for one in told() if one.get("code") == "servers_closed"}
    assert first == "BerthFoundCritical"


def test_figures_are_for_administrators_and_auditors(monitored: Monitored) -> None:
    def asked(token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.get(f"{monitored.stack.url}/metrics", headers=headers, trust_env=False).status_code

    tokens = monitored.stack.tokens
    assert [asked(one) for one in (tokens["root"], tokens["alice"], "berth_wrong", "")] == [200, 403, 401, 401]
