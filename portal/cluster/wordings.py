"""Sentences that are stored of what servers report of themselves, and of their places in the cluster."""

from __future__ import annotations

from nodes.protocol.wording import Wording

FIRST_REPORT = Wording("first_report", "Node %(node)s reports for the first time.")
BACK = Wording("back", "Node %(node)s is back.")
OLD_START = Wording(
    "old_start",
    "Reports of %(node)s are refused: its agent numbers its start before the one that was heard last. Give it a new "
    "key.",
)
GREW = Wording("grew", "Node %(node)s claims more than was accepted; it does not count until it is confirmed.")
PORTS_WRONG = Wording("ports_wrong", "The agent of %(node)s names no range of ports: %(ports)s are used.")
ADDRESS_WRONG = Wording(
    "address_wrong", "The agent of %(node)s names no address: tasks on other servers cannot reach those there."
)
TOO_MANY = Wording("too_many", "The agent of %(node)s names more than a server has: %(many)s.")
DISK_FULL = Wording("disk_full", "The disk for containers of %(node)s is full: it takes nothing new.")
DISK_ROOM = Wording("disk_room", "The disk for containers of %(node)s has room again.")

GPU_GONE = Wording("gpu_gone", "GPU %(index)s (%(uuid)s) of %(node)s is not there any more.")
GPU_FOUND = Wording("gpu_found", "GPU %(index)s of %(node)s: %(model)s, %(memory)s MB.")
GPU_CHANGED = Wording("gpu_changed", "GPU %(index)s of %(node)s: %(why)s.")
FENCED = Wording("gpu_fenced", "its node finds nothing wrong any more; it is fenced off until it is put back")
WELL_AGAIN = Wording("gpu_well", "is well again")

EXPECTED = Wording("expected", "Node %(node)s: expected.")
CONFIGURED = Wording("configured", "Node %(node)s: now %(shape)s in %(chain)s.")
TOPOLOGY = Wording("topology", "Topology of %(node)s: %(shape)s, GPUs %(indices)s.")
RACK = Wording("rack", "Rack %(rack)s: %(number)s nodes are a cell of type %(type)s.")
RACK_KEPT = Wording(
    "rack_kept", "Rack %(rack)s stays as it is, since quotas are made of it: %(node)s is not part of it."
)
REMOVED = Wording("node_removed", "Node %(node)s was removed.")
