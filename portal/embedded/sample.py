"""The sample job, submitted and followed as any program would: by the REST API and the log's websocket."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Origin

POLL_S = 0.3
OVER = {"succeeded", "failed", "stopped"}


class SampleJob:
    """Submits one job file and prints what its tasks write, line by line."""

    def __init__(self, *, url: str, token: str, say: Callable[[str], None]) -> None:
        self._say = say
        self._url = url
        self._token = token
        self._http = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30)
        self._readers: list[threading.Thread] = []

    def run(self, file: Path) -> str:
        """Submit ``file`` and follow it to its end; the state it ended in."""
        answer = self._http.post(
            "/api/v1/jobs", content=file.read_bytes(), headers={"Content-Type": "application/yaml"}
        )
        if answer.is_error:
            return self._refused(answer)
        job = answer.json()
        self._say(f"job {_label(job)} submitted")
        job = self._follow(job["id"])
        for reader in self._readers:
            reader.join(timeout=20)
        ending = "" if job["state"] == "succeeded" else f": {job.get('cause') or ''}"
        self._say(f"job {_label(job)} {job['state']}{ending}")
        return str(job["state"])

    def _refused(self, answer: httpx.Response) -> str:
        problem = answer.json()
        self._say(f"the sample job was refused: {problem.get('detail', answer.text)}")
        for error in problem.get("errors", []):
            self._say(f"  {error.get('path')}: {error.get('message')}")
        return "refused"

    def _follow(self, job_id: int) -> dict[str, Any]:
        seen: set[str] = set()
        reason = ""
        while True:
            job: dict[str, Any] = self._http.get(f"/api/v1/jobs/{job_id}").raise_for_status().json()
            waiting = (job.get("waiting") or {}).get("message") or ""
            if waiting and waiting != reason:
                reason = waiting
                self._say(f"job waits: {waiting}")
            for task in self._tasks(job_id):
                for attempt in task["attempts"]:
                    if attempt["id"] not in seen:
                        seen.add(attempt["id"])
                        self._read(attempt["id"], f"{task['role']}/{task['index']}")
            if job["state"] in OVER:
                return job
            time.sleep(POLL_S)

    def _tasks(self, job_id: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (
            self._http.get(f"/api/v1/jobs/{job_id}/tasks").raise_for_status().json()["results"]
        )
        return found

    def _read(self, attempt: str, name: str) -> None:
        reader = threading.Thread(target=self._print_log, args=(attempt, name), daemon=True)
        reader.start()
        self._readers.append(reader)

    def _print_log(self, attempt: str, name: str) -> None:
        offset, rest = 0, ""
        address = self._url.replace("http", "ws", 1)
        while True:
            try:
                with connect(
                    f"{address}/ws/logs/{attempt}?offset={offset}", origin=Origin(self._url),
                    additional_headers={"Authorization": f"Bearer {self._token}"},
                ) as socket:  # fmt: skip
                    for text in socket:
                        message = json.loads(text)
                        if message["type"] == "end":
                            return
                        if message["type"] == "records":
                            offset = message["to"]
                            rest = self._lines(name, rest + "".join(record[2] for record in message["records"]))
            except (ConnectionClosed, OSError):
                time.sleep(POLL_S)

    def _lines(self, name: str, text: str) -> str:
        *lines, rest = text.split("\n")
        for line in lines:
            self._say(f"  [{name}] {line}")
        return rest


def _label(job: dict[str, Any]) -> str:
    return str(job.get("label") or f"{job['user']}/{job['name']}#{job['run']}")
