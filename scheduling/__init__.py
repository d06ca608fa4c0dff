"""Berth's scheduling engine: a snapshot goes in, a plan comes out. Pure: no clock, no I/O, no randomness."""

from scheduling.cells import (
    Cluster,
    ClusterError,
    Leaf,
    Node,
    NodeState,
    QuotaLine,
    QuotaTooLarge,
    VirtualCluster,
)
from scheduling.decisions import Code, Demotion, Plan, Preempt, Promotion, Reason, Start, Victim, Wait
from scheduling.jobs import Borrow, Job, LeafUse, Role, Standing, TaskPlacement, TaskRef, all_tasks
from scheduling.snapshot import Claim, Running, RunningTask, Snapshot, Usage

__all__ = [
    "Borrow",
    "Claim",
    "Cluster",
    "ClusterError",
    "Code",
    "Demotion",
    "Job",
    "Leaf",
    "LeafUse",
    "Node",
    "NodeState",
    "Plan",
    "Preempt",
    "Promotion",
    "QuotaLine",
    "QuotaTooLarge",
    "Reason",
    "Role",
    "Running",
    "RunningTask",
    "Snapshot",
    "Standing",
    "Start",
    "TaskPlacement",
    "TaskRef",
    "Usage",
    "Victim",
    "VirtualCluster",
    "Wait",
    "all_tasks",
]
