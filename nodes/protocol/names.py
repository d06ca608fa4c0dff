"""Names that both sides agree on: queues, tasks, Redis keys, container names and labels."""

from __future__ import annotations

from typing import Any

REPORTS_QUEUE = "reports"
REPORT_TASK = "reports.node_report"
DESIRED_TASK = "node.desired"
WAKE_CHANNEL = "berth:logs"
"""Redis pub/sub channel of log hints, ``<task attempt id> <end offset>``, and ``<task attempt id> tail`` for unfinished
lines; a hint may be lost, and is never trusted."""
PEERS_VARIABLE = "BERTH_PEERS"
"""Names the file of ``Order.peers``; in a spec it is empty, and the runtime says where the file is."""
OWN_COMMANDS = "# berth: the job's own commands\n"
"""Line of a script before which nothing is part of the job's own commands, whose lines are counted from here."""


FOREIGN_PROCESS = "a process that no job started uses it: "
"""How a GPU's fault begins when a foreign process uses it: no fault of the hardware, and over when the process ends."""
MIG_MODE = "it is in MIG mode, "
"""How it begins for a GPU that its administrator has switched to MIG: over when it is switched back."""


def node_queue(node: str) -> str:
    """The Celery queue that only the agent of ``node`` consumes."""
    return f"node.{node}"


def log_stream(node: str, attempt: str) -> str:
    """Redis stream with the log of one task attempt.

    Each entry's id is ``<end offset>-0`` and its fields are ``data`` (whole log records) and ``sig``; so reading
    "after id N-0" gives every entry with bytes beyond offset N, and adding one twice is refused by Redis itself.
    """
    return f"berth:node:{node}:log:{attempt}"


def log_tail(node: str, attempt: str) -> str:
    """Redis stream of at most one entry: the attempt's unfinished lines (``signed_tail``). It expires a minute after it
    was last written."""
    return f"berth:node:{node}:tail:{attempt}"


def session_requests(node: str) -> str:
    """Redis stream of the sessions that the portal asks the node for; field ``request``: a signed envelope."""
    return f"berth:node:{node}:sessions"


def session_streams(node: str, session: str) -> tuple[str, str]:
    """(down, up): the Redis streams of one session's frames, in the field ``frame``."""
    prefix = f"berth:node:{node}:session:{session}"
    return f"{prefix}:down", f"{prefix}:up"


def samples_key(node: str) -> str:
    """Redis key of a node's newest samples as JSON (expires after a minute)."""
    return f"berth:node:{node}:samples"


def container_name(attempt: str) -> str:
    """The container's name, by which a repeated launch of the same task attempt finds it."""
    return f"berth-{attempt}"


class LABEL:
    """Labels on every container of ours; listings filter by cluster and node."""

    CLUSTER = "berth.cluster"
    NODE = "berth.node"
    JOB = "berth.job"
    ATTEMPT = "berth.attempt"
    TASK = "berth.task"
    GPUS = "berth.gpus"
    SPEC = "berth.spec"


CELERY_DEFAULTS: dict[str, Any] = {
    "task_serializer": "json",
    "accept_content": ["json"],
    "task_ignore_result": True,
    "result_backend": None,
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,
    "broker_heartbeat": 0,
    "worker_enable_remote_control": False,
    "worker_send_task_events": False,
    # Kombu's Redis transport stops reading while its prefetch is used up, and an acknowledgement that fails with
    # the connection never gives its place back: with a limit a worker would be deaf from then on.
    "worker_prefetch_multiplier": 0,
    "worker_hijack_root_logger": False,
    "enable_utc": True,
}
"""Celery settings shared by portal and agents: no remote control, no results, never give the broker up."""


_CONNECTION: dict[str, Any] = {
    "socket_timeout": 5,
    "socket_connect_timeout": 2,
    "socket_keepalive": True,
    "health_check_interval": 10,
}


def transport_options() -> dict[str, Any]:
    """Kombu's Redis options of the portal."""
    return {
        "unacked_key": "berth:portal:unacked",
        "unacked_index_key": "berth:portal:unacked_index",
        "unacked_mutex_key": "berth:portal:unacked_mutex",
        "visibility_timeout": 600,
        **_CONNECTION,
    }


def agent_transport_options() -> dict[str, Any]:
    """Kombu's Redis options of an agent. A lost list of orders comes again with the next report, so nothing is kept as
    unacknowledged: that needs scripts in Redis, which an agent's account may not run. Lists have one priority, so that
    the queue is one key."""
    return {"ack_emulation": False, "priority_steps": [0], **_CONNECTION}
