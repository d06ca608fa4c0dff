"""Redis accounts for nodes, each limited to its node's own keys: created, renewed with a new key, and removed. Redis
keeps them in memory, so they are re-applied regularly (docs/decisions/joining.md)."""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Any

from django.conf import settings
from django.db import transaction
from redis import Redis, RedisError

from nodes.protocol.accounts import (
    NODE_PREFIX,
    REPORTS_PREFIX,
    node_account,
    node_account_rules,
    reports_account,
    reports_account_rules,
    url_with_account,
)
from portal.common.wake import redis_once
from portal.hardware.models import Node

log = logging.getLogger(__name__)


def redis_password(node: Node) -> str:
    """The password of the node's accounts, derived from the portal's sealing key, the node's identity and its key:
    nothing is stored, a new key brings a new one."""
    said = f"redis {settings.CLUSTER_NAME} {node.pk} {node.name} {node.public_key}"
    return hmac.new(bytes.fromhex(settings.SEALING_KEY), said.encode(), hashlib.sha256).hexdigest()


def redis_address(node: Node) -> str:
    """Redis's URL for the node's agent, with account and password."""
    return url_with_account(settings.REDIS_NODES_URL, account=node_account(node.name), password=redis_password(node))


def redis_accounts_soon() -> None:
    """Applies the accounts once the transaction commits; a Redis that is away gets them next time."""
    transaction.on_commit(redis_accounts_apply)


def redis_accounts_apply() -> bool:
    """Makes Redis's accounts of nodes match the rows. False, with a log line, if Redis is away or takes no accounts."""
    if not settings.REDIS_ACCOUNTS:
        return True
    try:
        _ACCOUNTS.apply(redis_once())
    except RedisError as error:
        log.warning("accounts of nodes not put in place in Redis: %s", error)
        return False
    return True


class _Accounts:
    """Applies accounts; keeps what this process applied, so that only what differs is applied again."""

    def __init__(self) -> None:
        self._applied: dict[str, tuple[str, str]] = {}  # account -> (password, its line in Redis's list)
        self._turn = Lock()

    def apply(self, client: Redis) -> None:
        """Makes Redis's accounts match the rows. Raises RedisError."""
        with self._turn:
            there = _told(client)  # before the rows, so that the account of a node that joins just now stays
            wanted = dict(_wanted())
            for account in there.keys() - wanted.keys():
                client.acl_deluser(account)
                self._applied.pop(account, None)
            if changed := {
                account: one
                for account, one in wanted.items()
                if self._applied.get(account) != (one[0], there.get(account))
            }:
                _put(client, there, changed)
                now = _told(client)
                self._applied |= {
                    account: (password, now.get(account, "")) for account, (password, _) in changed.items()
                }


_ACCOUNTS = _Accounts()


def _wanted() -> Iterator[tuple[str, tuple[str, list[str]]]]:
    """Account -> (password, rules)."""
    for node in Node.objects.exclude(public_key="").only("name", "public_key"):
        password = redis_password(node)
        yield node_account(node.name), (password, node_account_rules(node.name))
        yield reports_account(node.name), (password, reports_account_rules())


def _put(client: Redis, there: Mapping[str, str], changed: Mapping[str, tuple[str, list[str]]]) -> None:
    pipe = client.pipeline(transaction=True)
    for account, (password, rules) in changed.items():
        # Disconnects clients that used another password; those with this one stay connected.
        if account in there and f"#{hashlib.sha256(password.encode()).hexdigest()}" not in there[account].split():
            pipe.acl_deluser(account)
        pipe.execute_command("ACL", "SETUSER", account, "reset", "on", f">{password}", *rules)  # type: ignore[no-untyped-call]
    pipe.execute()


def _told(client: Redis) -> dict[str, str]:
    """The accounts of nodes that Redis has: name -> its full line."""
    answer: Any = client.execute_command("ACL", "LIST")  # type: ignore[no-untyped-call]
    lines = [one.decode() if isinstance(one, bytes) else str(one) for one in answer]
    named = {line.split(" ", 2)[1]: line for line in lines}
    return {name: line for name, line in named.items() if name.startswith((NODE_PREFIX, REPORTS_PREFIX))}
