"""Regular tasks go on when somebody sets the clock: in a process whose wall clock really jumps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reliability.chaos.clock import Clock, clock_library

ROOT = Path(__file__).parents[3]
REGULAR = """
import sys, time
from celery import Celery
from portal.common.beat import SteadyScheduler

app = Celery(broker="memory://", set_as_current=False)
app.conf.beat_schedule = {"look": {"task": "look", "schedule": 0.1}}
beat = SteadyScheduler(app)

def runs_within(seconds):
    end, before = time.monotonic() + seconds, beat.schedule["look"].total_run_count
    while time.monotonic() < end:
        time.sleep(max(0, min(beat.tick(), 0.1)))
    return beat.schedule["look"].total_run_count - before

print(runs_within(0.6), file=sys.stderr, flush=True)
sys.stdin.readline()
print(runs_within(1.0), file=sys.stderr, flush=True)
"""


@pytest.mark.parametrize("seconds", [-7200, 7200])
def test_a_clock_that_is_set_holds_no_regular_task_back_and_runs_none_in_a_storm(tmp_path: Path, seconds: int) -> None:
    clock = Clock(tmp_path / "clock", clock_library(tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-c", REGULAR],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | clock.environment,
    )  # fmt: skip
    with process:
        assert process.stdin
        assert process.stderr
        assert int(process.stderr.readline()) >= 2
        clock.off_by(seconds)
        process.stdin.write("\n")
        process.stdin.flush()
        assert 3 <= int(process.stderr.readline()) <= 12
