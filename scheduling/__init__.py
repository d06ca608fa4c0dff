"""Berth's scheduling engine: a snapshot goes in, a plan comes out. Pure: no clock, no I/O, no randomness."""

from scheduling.compiled import use

COMPILED = use(__path__)
"""Whether the modules below are compiled code."""

from scheduling.cells.allocator import PlacementConflict
from scheduling.diagnosis.feasible_at_submit import JobRefused, Refusal, refusals
from scheduling.engine import Engine, UnknownJob
from scheduling.model.cluster import Cluster, ClusterError, FirstToPay, Order, Policy, QuotaTooLarge
from scheduling.model.description import (
    CellType,
    Leaf,
    Node,
    NodeState,
    PinnedCell,
    QuotaLine,
    Rules,
    UpperCell,
    VirtualCluster,
)
from scheduling.model.job import Borrow, Job, LeafUse, Role, Standing, TaskPlacement, TaskRef, all_tasks
from scheduling.model.plan import Code, Demotion, Plan, Preempt, Promotion, Reason, Start, Victim, Wait
from scheduling.model.snapshot import Claim, Freed, Running, RunningTask, Snapshot, Usage

__all__ = [
    "COMPILED",
    "Borrow",
    "CellType",
    "Claim",
    "Cluster",
    "ClusterError",
    "Code",
    "Demotion",
    "Engine",
    "FirstToPay",
    "Freed",
    "Job",
    "JobRefused",
    "Leaf",
    "LeafUse",
    "Node",
    "NodeState",
    "Order",
    "PinnedCell",
    "PlacementConflict",
    "Plan",
    "Policy",
    "Preempt",
    "Promotion",
    "QuotaLine",
    "QuotaTooLarge",
    "Reason",
    "Refusal",
    "Role",
    "Rules",
    "Running",
    "RunningTask",
    "Snapshot",
    "Standing",
    "Start",
    "TaskPlacement",
    "TaskRef",
    "UnknownJob",
    "UpperCell",
    "Usage",
    "Victim",
    "VirtualCluster",
    "Wait",
    "all_tasks",
    "refusals",
]
