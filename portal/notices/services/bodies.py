"""What the webhook is sent: JSON documents with the version of their shape. ``docs/admin/webhook.md`` has them all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.conf import settings

from portal.hardware.doomed import DoomedCells
from portal.hardware.models import NodeEvent
from portal.jobs.models import JobEvent
from portal.notices.states import LEFT_OUT, PING, Told

VERSION = 1
"""Of the shape; it grows when something that was there is not any more, or means something else."""


class AlertWords(NamedTuple):
    """An alert in one language."""

    name: str
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class AlertChange:
    """That an alert has begun, or is over. ``said`` has its words in each language of the portal; ``since``: when it
    began, as far as is known; ``at``: when this came about."""

    begun: bool
    key: str
    code: str
    severity: str
    kind: str
    since: datetime
    at: datetime
    said: Mapping[str, AlertWords]


class Telling(NamedTuple):
    """Something to be delivered; ``subject`` names the job, the node, the virtual cluster, or what an alert is of."""

    kind: str
    subject: str
    body: str


def job_telling(kind: Told, events: Sequence[JobEvent], message: str) -> Telling:
    """Of a job, with its user and VC; ``events``: what happened, to it or to several of its tasks."""
    last = events[-1]
    job = last.job
    told = {
        "id": job.pk,
        "label": job.label,
        "user": job.user.username,
        "virtual_cluster": job.vc.name,
        "url": f"{settings.URL}/jobs/{job.pk}",
    }
    return _telling(kind, job.label, last.at, job=told, message=message)


def node_telling(kind: Told, event: NodeEvent) -> Telling:
    """Of a node."""
    return _telling(kind, event.node.name, event.at, node={"name": event.node.name}, message=event.message)


def quota_telling(vc: str, cells: Sequence[DoomedCells], now: datetime) -> Telling:
    """Of a virtual cluster's quota: which cells of it would have to sit on bad hardware, if any."""
    doomed = [{"chain": one.chain, "cell_type": one.cell_type, "cells": one.cells} for one in cells]
    some = ", ".join(f"{one.cells} of {one.cell_type}" for one in cells)
    message = f"Of {vc}'s quota cannot be had now: {some}." if cells else f"All of {vc}'s quota can be had again."
    kind = Told.QUOTA_AT_RISK if cells else Told.QUOTA_SAFE
    return _telling(kind, vc, now, virtual_cluster=vc, doomed=doomed, message=message)


def alert_telling(change: AlertChange) -> Telling:
    """That an alert has begun or is over, in the words for programs."""
    name, message, advice = change.said[settings.LANGUAGE_CODE]
    told = {
        "key": change.key,
        "code": change.code,
        "severity": change.severity,
        "kind": change.kind,
        "name": name,
        "since": change.since.isoformat(),
        "url": f"{settings.URL}/alerts",
    }
    kind = Told.ALERT_BEGUN if change.begun else Told.ALERT_OVER
    return _telling(kind, name, change.at, alert=told, message=message, advice=advice)


def ping_telling(now: datetime, actor: str) -> Telling:
    """A test."""
    return _telling(PING, "", now, message=f"A test, asked for by {actor}.")


def left_out_telling(count: int, now: datetime) -> Telling:
    """That so many deliveries were never made."""
    message = f"{count} deliveries were left out while too many waited."
    return _telling(LEFT_OUT, "", now, count=count, message=message)


def _telling(kind: str, subject: str, at: datetime, **data: Any) -> Telling:
    document = {
        "type": str(kind),
        "version": VERSION,
        "timestamp": at.isoformat(),
        "cluster": settings.CLUSTER_NAME,
        "data": data,
    }
    return Telling(str(kind), subject[:255], json.dumps(document, ensure_ascii=False))
