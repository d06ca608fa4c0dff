"""A process runtime in a folder that jobs can get through to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes.agent.runtimes.process.runtime import ProcessRuntime


def runtime_at(folder: Path, node: str = "gpu01") -> ProcessRuntime:
    return ProcessRuntime(cluster="berth", node=node, folder=folder / "tasks", homes=folder / "homes")


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[ProcessRuntime]:
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    runtime = runtime_at(tmp_path)
    yield runtime
    for attempt in runtime.found():
        runtime.remove(attempt)
    runtime.close()
