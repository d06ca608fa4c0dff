"""Sentences that are stored of servers and GPUs: what happened to them, and why they are not used."""

from __future__ import annotations

from nodes.protocol.states import Cause
from nodes.protocol.wording import Wording
from portal.hardware.states import NodeIntent

JOINED = Wording("joined", "Node %(node)s was registered.")
TAKES_CPU_TASKS = Wording("cpu_tasks", "Node %(node)s takes tasks without GPUs.")
NO_CPU_TASKS = Wording("no_cpu_tasks", "Node %(node)s takes no more tasks without GPUs; those that run there go on.")
INTENTS = {
    NodeIntent.OPEN: Wording("intent_open", "Node %(node)s is open."),
    NodeIntent.CORDONED: Wording("intent_cordoned", "Node %(node)s is cordoned."),
    NodeIntent.DRAINING: Wording("intent_draining", "Node %(node)s is draining."),
}
INTENTS_FOR = {
    NodeIntent.OPEN: Wording("intent_open_for", "Node %(node)s is open: %(why)s"),
    NodeIntent.CORDONED: Wording("intent_cordoned_for", "Node %(node)s is cordoned: %(why)s"),
    NodeIntent.DRAINING: Wording("intent_draining_for", "Node %(node)s is draining: %(why)s"),
}
PUT_BACK = Wording("put_back", "%(names)s of %(node)s put back: %(why)s")
GPU = Wording("gpu", "GPU %(index)s")
THE_NODE = Wording("the_node", "the node")
GPU_MOVED = Wording("gpu_moved", "GPU %(index)s (%(uuid)s) of %(node)s is in %(other)s now.")
GPU_TWICE = Wording(
    "gpu_twice", "%(node)s reports the GPU %(uuid)s, which %(other)s reports as well: it stays with that one."
)

# ---------------------------------------------------------------- out, on trial

START_FAILED = Wording("start_failed", "A task of %(user)s could not be started on %(node)s: %(why)s.")
OUT = Wording("out", "%(node)s takes nothing new: tasks of %(number)s users failed at the start (%(why)s).")
OUT_ON_TRIAL = Wording(
    "out_on_trial", "%(node)s takes nothing new: on trial, another task failed at the start (%(why)s)."
)
FAILED_BY = {
    Cause.VANISHED: Wording("out_vanished", "vanished"),
    Cause.PORT_TAKEN: Wording("out_port_taken", "port taken"),
    Cause.STORAGE_MISSING: Wording("out_storage_missing", "storage missing"),
    Cause.DEVICE_FAULT: Wording("out_device_fault", "device fault"),
    Cause.NO_SPACE: Wording("out_no_space", "no space"),
    Cause.ENGINE_FAULT: Wording("out_engine_fault", "engine fault"),
    Cause.IMAGE_MISMATCH: Wording("out_image_mismatch", "image mismatch"),
    "not_ready_in_time": Wording("out_late", "not ready in time"),
}
TRIAL = Wording("trial", "%(node)s is tried again.")
TRIAL_PASSED = Wording("trial_passed", "A task started well on %(node)s.")

# ---------------------------------------------------------------- away, and back

ENGINE_AWAY = Wording("engine_away", "The container engine of %(node)s does not answer: the node takes nothing new.")
ENGINE_BACK = Wording("engine_back", "The container engine of %(node)s answers again.")
ORDERS_LEFT = Wording("orders_left", "Node %(node)s does not take its orders: it gets nothing new.")
ORDERS_TAKEN = Wording("orders_taken", "Node %(node)s takes its orders again.")
TOGETHER = Wording(
    "silent_together",
    "%(number)s of %(all)s nodes fell silent together; none is given up. Look at the network and at the broker's "
    "address.",
)
NO_REPORT = Wording("no_report", "No report since %(time)s; given up after %(seconds)s s.")
NO_REPORT_BY = Wording("no_report_by", "No report since %(time)s; given up by %(user)s: %(why)s")
NEVER = Wording("never", "never")
LOST = Wording("lost", "Node %(node)s is lost. %(why)s")

# ---------------------------------------------------------------- more than a server has

GPUS = Wording("many_gpus", "%(number)s GPUs (at most %(most)s count)")
STORAGES = Wording("many_storages", "%(number)s storages (at most %(most)s count)")
STORAGE_FAULTS = Wording("many_storage_faults", "%(number)s faults of storages (at most %(most)s count)")
UNGUARDED = Wording("many_unguarded", "%(number)s unguarded storages (at most %(most)s count)")

# ---------------------------------------------------------------- clocks

CLOCK_AHEAD = Wording(
    "clock_ahead",
    "Its clock is %(seconds)s s ahead of the portal's: times of its tasks and logs are wrong by that, and orders may "
    "expire on their way.",
)
CLOCK_BEHIND = Wording(
    "clock_behind",
    "Its clock is %(seconds)s s behind the portal's: times of its tasks and logs are wrong by that, and orders may "
    "expire on their way.",
)
CLOCK_WRONG = Wording(
    "clock_wrong", "Node %(node)s: %(why)s Let chrony or systemd-timesyncd set the clocks of all servers."
)
CLOCK_RIGHT = Wording("clock_right", "The clock of node %(node)s is right again.")
