"""Every state has a sentence; ports of running tasks are links to their nodes and to nowhere else."""

from __future__ import annotations

import pytest

from nodes.protocol.states import ContainerState
from portal.hardware.models import Node
from portal.job_pages.views.causes import REASONS, STATES, cause_of
from portal.jobs.models import Job, TaskAttempt
from portal.jobs.states import JOB_OVER, EndReason, JobState
from tests.support.cluster.world import World
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db


def test_every_state_and_every_end_has_a_sentence(world: World, browser: Browser) -> None:
    assert set(STATES) == set(JobState)
    assert set(REASONS) == set(EndReason)
    for state in JobState:
        for reason in EndReason if state in JOB_OVER else [""]:
            assert str(cause_of(Job(state=state, end_reason=reason))).endswith(".")
    job = world.submit()
    for state in (JobState.STARTING, JobState.RUNNING, JobState.STOPPING, JobState.FAILED):
        Job.objects.filter(pk=job.pk).update(state=state)
        assert str(STATES[state]) in browser.get(f"/jobs/{job.pk}").text


def test_a_declared_port_of_a_running_task_is_a_link_to_its_node(world: World, browser: Browser) -> None:
    job = world.submit()
    world.settle()
    TaskAttempt.objects.update(ports={"board": [20001], "bad": ["x", 70000]})
    hosts = {
        "10.0.0.7": "http://10.0.0.7:20001",
        "fd00::7": "http://[fd00::7]:20001",
        "gpu01.example": "http://gpu01.example:20001",
        **dict.fromkeys(("javascript:alert(1)//", "evil@example", "a/b", ""), ""),
    }
    for host, address in hosts.items():
        Node.objects.update(address=host)
        page = browser.get(f"/jobs/{job.pk}")
        assert "board: 20001" in page.text
        assert page.links.get("board: 20001", "") == address, host
        assert "70000" not in page.text
    TaskAttempt.objects.update(ports={"board": [20001], "ssh": [20002], "http": [20003], "berth_master": [20004]})
    assert not [port for port in ("20002", "20003", "20004") if port in browser.get(f"/jobs/{job.pk}").text]
    TaskAttempt.objects.update(ports={"board": [20001]})
    TaskAttempt.objects.update(state=ContainerState.TERMINATED)
    assert "20001" not in browser.get(f"/jobs/{job.pk}").text
