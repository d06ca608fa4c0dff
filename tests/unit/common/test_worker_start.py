"""What a worker loads when it starts: its own tasks, and nothing of the pages."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
LOADED = (
    "import sys; from portal.celery import app; app.loader.import_default_modules(); "
    "print(*sys.modules, *(name for name in app.tasks if not name.startswith('celery.')))"
)


def test_a_worker_has_its_tasks_and_loads_neither_pages_nor_the_rest_api() -> None:
    """They would take a second of each start, and memory for as long as it runs."""
    loaded = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=ROOT, env=os.environ, capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"scheduler.look", "reports.node_report", "control.webhook_send"} <= set(loaded)
    pages = {"portal.urls", "portal.job_pages.views.job", "portal.job_pages.api.jobs", "rest_framework.serializers"}
    assert not pages & set(loaded)
