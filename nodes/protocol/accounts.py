"""Redis accounts of a node, two of them, and what each may touch: exactly what an agent does, and nothing else.

Two, because Redis 6 gives an account one list of commands for all of its keys: an account that may push a report and
take orders could also take other nodes' reports off the queue. So reports have an account of their own, which can push
them, and ask how many wait, and nothing else. Both open with one password.
"""

from __future__ import annotations

from urllib.parse import quote, unquote, urlsplit

from nodes.protocol.names import REPORTS_QUEUE, WAKE_CHANNEL, node_queue

NODE_PREFIX, REPORTS_PREFIX = "node.", "reports."
"""Prefixes of the accounts' names; every account with such a name belongs to the portal."""

_STREAMS = ("xadd", "xread", "xrevrange", "xtrim", "xlen", "xinfo|stream", "exists", "expire", "del", "publish")
"""Commands for log streams and sessions."""
_QUEUE = ("llen", "sadd", "multi", "exec", "brpop", "lpush", "smembers")
"""Commands for the queue as Kombu declares, reads and closes it."""
_CONNECTION = ("ping", "select")


def node_account(node: str) -> str:
    """Name of the account with which an agent takes orders and serves logs and sessions."""
    return NODE_PREFIX + node


def reports_account(node: str) -> str:
    """Name of the account with which an agent sends its reports."""
    return REPORTS_PREFIX + node


def node_account_rules(node: str) -> list[str]:
    """Rules of ``ACL SETUSER``, without the password. Node names have no pattern characters; Redis 6 lets a new account
    into all channels unless told otherwise."""
    queue = node_queue(node)
    keys = (f"berth:node:{node}:*", queue, f"_kombu.binding.{queue}", f"_kombu.binding_permanent.{queue}")
    commands = (*_CONNECTION, *_QUEUE, *_STREAMS)
    return ["resetchannels", *(f"~{key}" for key in keys), f"&{WAKE_CHANNEL}", *(f"+{command}" for command in commands)]


def reports_account_rules() -> list[str]:
    """Rules of the account for reports."""
    return ["resetchannels", f"~{REPORTS_QUEUE}", *(f"+{command}" for command in (*_CONNECTION, "lpush", "llen"))]


def url_with_account(url: str, *, account: str, password: str) -> str:
    """The address of Redis with another account."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{quote(account, safe='')}:{quote(password, safe='')}@{place}").geturl()


def reports_url(url: str, node: str) -> str:
    """The address by which an agent sends its reports: with their account, if it was given the node's own."""
    parts = urlsplit(url)
    if unquote(parts.username or "") != node_account(node):
        return url
    return url_with_account(url, account=reports_account(node), password=unquote(parts.password or ""))
