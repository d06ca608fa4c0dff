"""Berth's scheduling engine: a snapshot goes in, a plan comes out. Pure: no clock, no I/O, no randomness."""

from scheduling.admission import JobRefused, Refusal, refusals
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
from scheduling.engine import ALL, Engine, UnknownJob
from scheduling.jobs import Borrow, Job, LeafUse, Role, Standing, TaskPlacement, TaskRef, all_tasks
from scheduling.ledger import PlacementConflict
from scheduling.snapshot import Claim, Running, RunningTask, Snapshot, Usage

__all__ = [
    "ALL",
    "Borrow",
    "Claim",
    "Cluster",
    "ClusterError",
    "Code",
    "Demotion",
    "Engine",
    "Job",
    "JobRefused",
    "Leaf",
    "LeafUse",
    "Node",
    "NodeState",
    "PlacementConflict",
    "Plan",
    "Preempt",
    "Promotion",
    "QuotaLine",
    "QuotaTooLarge",
    "Reason",
    "Refusal",
    "Role",
    "Running",
    "RunningTask",
    "Snapshot",
    "Standing",
    "Start",
    "TaskPlacement",
    "TaskRef",
    "UnknownJob",
    "Usage",
    "Victim",
    "VirtualCluster",
    "Wait",
    "all_tasks",
    "refusals",
]
