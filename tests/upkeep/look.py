"""Brings an installation up to the present and looks into it as its people do: `python -m tests.upkeep.look TOLD`, in
its environment.

TOLD is what `freeze.py` wrote. Prints as JSON what pages and REST answer now: who logs in, each job's page, state and
logs, what is unsealed of its secrets, and the quota of each virtual cluster.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import django


def main() -> None:
    django.setup()
    from django.core.management import call_command

    call_command("migrate", interactive=False, verbosity=0)
    call_command("migrate", check_unapplied=True, verbosity=0)
    told = json.loads(Path(sys.argv[1]).read_text())
    people = {name: _logs_in(name, told["password"]) for name in told["tokens"]}
    jobs = {name: _job(job, told["tokens"][job["user"]]) for name, job in told["jobs"].items()}
    quota = {row["name"]: row["gpus"] for row in _rest("virtual-clusters", told["tokens"]["root"])["results"]}
    print(json.dumps({"people": people, "jobs": jobs, "quota": quota}))


def _client(**headers: str) -> Any:
    from django.test import Client

    return Client(headers={"host": "127.0.0.1", **headers})


def _logs_in(name: str, password: str) -> bool:
    """By the form, to a home page of their own."""
    from django.urls import reverse

    browser = _client()
    browser.post(reverse("login"), {"username": name, "password": password})
    page = browser.get(reverse("home"))
    return page.status_code == 200 and name in page.content.decode()


def _rest(path: str, token: str) -> Any:
    answer = _client(authorization=f"Bearer {token}").get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.content
    return asyncio.run(_whole(answer)) if answer.streaming else answer.json()


async def _whole(answer: Any) -> str:
    return b"".join([piece async for piece in answer.streaming_content]).decode()


def _job(job: dict[str, Any], token: str) -> dict[str, Any]:
    from django.urls import reverse

    from portal.common.sealing import unseal
    from portal.jobs.models import Job

    browser = _client()
    row = Job.objects.select_related("user").get(pk=job["id"])
    browser.force_login(row.user)
    page = browser.get(reverse("job", args=[job["id"]]))
    tasks = _rest(f"jobs/{job['id']}/tasks", token)["results"]
    return {
        "state": _rest(f"jobs/{job['id']}", token)["state"],
        "page": page.status_code == 200 and row.name in page.content.decode(),
        "logs": [_log(job["id"], task, token) for task in tasks],
        "secrets": unseal(row.secrets_sealed),
    }


def _log(job: int, task: dict[str, Any], token: str) -> list[str]:
    if not task["attempts"]:
        return []
    text = _rest(f"jobs/{job}/logs?task_attempt={task['attempts'][0]['id']}&format=text", token)
    return [str(line) for line in text.splitlines()]


if __name__ == "__main__":
    main()
