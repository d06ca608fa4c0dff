"""The job file that an empty page begins with."""

from __future__ import annotations

EXAMPLE = """\
protocolVersion: 2
name: my-job
type: job

prerequisites:
  - protocolVersion: 2
    name: image
    type: dockerimage
    uri: busybox:latest

taskRoles:
  worker:
    instances: 1
    dockerImage: image
    resourcePerInstance:
      cpu: 1
      memoryMB: 1024
      gpu: 1
    commands:
      - echo "hello from $(hostname)"
"""
