"""Celery's way in: fetch, call the service, return."""

from __future__ import annotations

from celery import shared_task

from portal.hardware.services.redis_accounts import redis_accounts_apply


@shared_task(name="control.redis_accounts")
def redis_accounts() -> None:
    """Put the nodes' accounts in place in Redis, which forgets them when it starts."""
    redis_accounts_apply()
