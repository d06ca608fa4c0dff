"""A real Prometheus and Alertmanager, with the files of `docs/monitoring`, scrape a whole Berth and tell of what is
wrong; what the boards of `docs/grafana` ask for is there."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.cluster.stack import ROOT, Agent, Stack
from tests.support.people.person import alice
from tests.support.run.waiting import wait_until
from tests.support.services.migrated import sqlite_copy
from tests.support.services.processes import free_port
from tests.support.services.receiver import Receiver
from tests.support.services.services import Services

pytestmark = pytest.mark.prometheus
MONITORING, GRAFANA = ROOT / "docs" / "monitoring", ROOT / "docs" / "grafana"
WORKERS = ("scheduler", "reports", "control")
CASES = Path(__file__).with_name("rules.test.yml")
FOREIGN = {'up{job="node", instance="127.0.0.1:9100"}'}
"""Figures in these that are not Berth's."""


@dataclass
class Monitored:
    """A stack, what scrapes it, and where its messages arrive."""

    stack: Stack
    url: str
    receiver: Receiver
    ports: dict[str, int]

    def ask(self, path: str, **query: str) -> Any:
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=query, timeout=10, trust_env=False)
        assert answer.status_code == httpx.codes.OK, answer.text
        return answer.json()["data"]

    def value(self, query: str) -> float | None:
        found = self.ask("query", query=query)["result"]
        return float(found[0]["value"][1]) if found else None


@pytest.fixture(scope="module")
def monitored(services: Services) -> Iterator[Monitored]:
    agents = [Agent(name="here", runtime="process", gpus="simulated:4xH100-80GB")]
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
        made = Monitored(stack, f"http://127.0.0.1:{prometheus}", receiver, ports)
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


def test_every_process_is_scraped_and_what_boards_and_rules_ask_for_is_there(
    monitored: Monitored, tmp_path: Path
) -> None:
    user = alice(monitored.stack)
    wait_until(lambda: monitored.value("count(up == 1)") == 4, "every process to be scraped")
    empty = [one for one in _queries() if not one.answered(monitored)]
    # The first job makes its virtual cluster's histogram, the second one adds to it.
    for count in (1, 2):
        user.wait(user.run("echo hello", name=f"watched{count}"), "succeeded")
        wait_until(lambda count=count: monitored.value("sum(berth_job_queued_seconds_count)") == count, "its wait")  # type: ignore[misc]
    wait_until(lambda: monitored.value('sum(berth_gpus{place="free"})') == 4, "its GPUs to be free again")
    assert (monitored.value('berth_reports_total{result="taken"}') or 0) > 0
    monitored.stack.manage("backup", str(tmp_path / "berth.tar"), "--without", "logs")
    cordon(monitored)  # so that there is an alert
    for one in empty:
        wait_until(partial(one.answered, monitored), f"an answer to {one.text}")
    assert monitored.ask("label/node/values") == ["here"], "what the board of servers offers to choose from"


def test_rules_are_told_of_what_they_are_made_for_and_not_before(monitored: Monitored) -> None:
    """Each rule by figures made for it; that such figures come from a portal, by name and label."""
    done = subprocess.run(["promtool", "test", "rules", str(CASES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = yaml.safe_load(CASES.read_text())["tests"]
    rules = {rule["alert"] for rule in _rules()}
    assert {case["alertname"] for one in told for case in one["alert_rule_test"] if case["exp_alerts"]} == rules
    cordon(monitored)
    for series in {series["series"] for one in told for series in one["input_series"]} - FOREIGN:
        name, labels = series.split("{")
        wanted = {*re.findall(r"(\w+)=", labels)}
        found = wait_until(partial(monitored.ask, "series", **{"match[]": name}), series)
        assert any(wanted <= one.keys() for one in found), f"{series}: the portal's have {found}"


def cordon(monitored: Monitored) -> None:
    done = monitored.stack.client("root").patch("/nodes/here", json={"intent": "cordoned", "reason": "fans"})
    assert done.status_code == 200, done.text


@dataclass
class Query:
    """One that a board or a rule asks, and the labels of which the board's words are made."""

    file: str
    text: str
    legend: str = ""

    def answered(self, monitored: Monitored) -> bool:
        """Whether there is something to draw: numbers, with those labels."""
        found = monitored.ask("query", query=self.text.replace("$node", "here"))["result"]
        drawn = [one for one in found if one["value"][1] != "NaN"]
        missing = {*re.findall(r"{{(\w+)}}", self.legend)} - {label for one in drawn for label in one["metric"]}
        return bool(drawn) and not missing


def _queries() -> Iterator[Query]:
    for path in sorted(GRAFANA.glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                yield Query(path.name, target["expr"], target.get("legendFormat", ""))


def _rules() -> Iterator[dict[str, Any]]:
    for group in yaml.safe_load((MONITORING / "rules.yml").read_text())["groups"]:
        yield from group["rules"]


def test_what_is_wrong_arrives_where_alertmanager_sends_it(monitored: Monitored) -> None:
    cordon(monitored)

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


def test_a_worker_without_redis_is_not_well_and_comes_back_by_itself(monitored: Monitored) -> None:
    """As health checks of containers ask."""

    def health() -> set[int]:
        try:
            asked = [httpx.get(f"http://127.0.0.1:{one}/healthz", trust_env=False) for one in monitored.ports.values()]
        except httpx.TransportError:
            return set()
        return {answer.status_code for answer in asked}

    wait_until(lambda: health() == {200}, "the workers to be well")
    monitored.stack.redis.kill()
    assert health() == {503}
    monitored.stack.redis.start()
    wait_until(lambda: health() == {200}, "the workers to be well again", deadline_s=60)
