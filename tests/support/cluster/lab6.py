"""Job files with what those of OpenPAI's lab 6 ask for: eight of one role, on nodes with one GPU each."""

from __future__ import annotations

from typing import NamedTuple

IMAGE = "lab.example/trainer"

_FILE = """\
protocolVersion: 2
name: lab-{number}
type: job
prerequisites:
  - protocolVersion: 2
    name: trainer
    type: dockerimage
    uri: {image}
taskRoles:
  train:
    instances: {job.instances}
    completion:
      minFailedInstances: 1
      minSucceededInstances: 1
    dockerImage: trainer
    resourcePerInstance:
      cpu: 2
      memoryMB: 4096
      gpu: 1
    commands:
    - >
      python3 mnist/train.py
      --epochs 1
      --lr 0.01
      --batch-size 64
{sleep}
defaults:
  virtualCluster: {job.vc}

extras:
{gang}  hivedScheduler:
    jobPriorityClass: {job.priority}
"""


class LabJob(NamedTuple):
    """What differs between the files; `gang` None: not said."""

    vc: str
    priority: str
    instances: int = 1
    gang: bool | None = None
    sleeps: bool = True


JOBS = (
    LabJob("vc1", "prod", sleeps=False),
    LabJob("vc1", "test"),
    LabJob("vc1", "prod"),
    LabJob("vc1", "prod"),
    LabJob("vc1", "oppo"),
    LabJob("default", "prod"),
    LabJob("default", "prod", instances=2, gang=True, sleeps=False),
    LabJob("default", "prod", instances=2, gang=False, sleeps=False),
)


def lab_job(number: int) -> str:
    job = JOBS[number]
    gang = "" if job.gang is None else f"  gangAllocation: {str(job.gang).lower()}\n"
    sleep = "    - sleep 5m\n" if job.sleeps else ""
    return _FILE.format(number=number, image=IMAGE, job=job, gang=gang, sleep=sleep)
