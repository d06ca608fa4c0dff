"""Secrets of a stored job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from portal.common.sealing import SealBroken, unseal
from portal.jobs.models import Job


def hidden_in(job: Job) -> Mapping[str, Any]:
    """The secrets that the job's stored file does not show; empty if they cannot be unsealed."""
    try:
        return cast(dict[str, Any], unseal(job.secrets_sealed))
    except SealBroken:
        return {}
