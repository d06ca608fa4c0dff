"""Sentences of the idle policy."""

from __future__ import annotations

from nodes.protocol.wording import Wording
from portal.jobs.states import IdleAction, IdleEnd

MINUTES = Wording("minutes", "%(number)s minute", "%(number)s minutes", count="number")
IDLE = Wording(
    "idle",
    "Its %(number)s GPU has been below %(percent)s %% for %(time)s.",
    "Its %(number)s GPUs have been below %(percent)s %% for %(time)s.",
    count="number",
)
WARNED = Wording("idle_warned", "%(idle)s %(follows)s")
FOLLOWS = {
    IdleAction.STOP: Wording(
        "idle_follows_stop",
        "It is stopped at %(time)s UTC unless it works again.",
        "It is stopped at %(time)s UTC unless they work again.",
        count="number",
    ),
    IdleAction.OPPORTUNISTIC: Wording(
        "idle_follows_opportunistic",
        "It becomes opportunistic at %(time)s UTC unless it works again.",
        "It becomes opportunistic at %(time)s UTC unless they work again.",
        count="number",
    ),
    IdleAction.PARK: Wording(
        "idle_follows_park",
        "It is parked at %(time)s UTC unless it works again: its GPU is lent until somebody resumes it.",
        "It is parked at %(time)s UTC unless they work again: its GPUs are lent until somebody resumes it.",
        count="number",
    ),
}
"""What is announced, for ``number`` GPUs."""
WHY = Wording(
    "idle_why",
    "its %(number)s GPU was below %(percent)s %% for %(time)s; policy of %(whose)s; warned at %(at)s UTC.",
    "its %(number)s GPUs were below %(percent)s %% for %(time)s; policy of %(whose)s; warned at %(at)s UTC.",
    count="number",
)
OF_VC = Wording("idle_of_vc", "virtual cluster %(vc)s")
OF_CLUSTER = Wording("idle_of_cluster", "the cluster")
HANGS = Wording(
    "hangs",
    "Task %(task)s seems to hang at step %(step)s: no step and no output for %(time)s, though one takes %(seconds)s s; "
    "%(signs)s. Nothing is done about it: look at it, or stop it.",
)
DREW = Wording("hang_drew", "its GPUs were busy, but drew %(watts)s W instead of %(usual)s W")
DREW_AND_WORKED = Wording(
    "hang_drew_and_worked",
    "its GPUs were busy, but drew %(watts)s W instead of %(usual)s W, with %(sm)s %% instead of %(usual_sm)s %% of "
    "their multiprocessors at work",
)
"""What shows a hang."""
GOES_ON = Wording("hang_over", "Task %(task)s goes on: step %(step)s.")
STOPPED = Wording("idle_stopped", "Stopped: %(why)s")
OPPORTUNISTIC = Wording(
    "idle_opportunistic", "It is opportunistic until this attempt ends, and its GPUs may be taken back: %(why)s"
)
NOT_PARKED = Wording("idle_not_parked", "It cannot be parked: %(why)s.")
PUT_OFF = Wording("idle_extended", "Put off by %(who)s for %(time)s. %(follows)s")
WITHDRAWN = Wording("idle_withdrawn", "The warning of %(time)s UTC is withdrawn: %(why)s.")
BECAUSE = {
    IdleEnd.WORKED: Wording("idle_worked", "its GPUs work again"),
    IdleEnd.UNKNOWN: Wording("idle_unknown", "nothing was heard of its GPUs for some minutes"),
    IdleEnd.EXEMPT: Wording("idle_exempt", "it is excepted from the idle policy now"),
    IdleEnd.POLICY: Wording("idle_policy", "the idle policy was changed"),
    IdleEnd.PARKED: Wording("idle_off_gpu", "it is parked"),
}
"""Why a warning is withdrawn."""
STAYS = {
    IdleEnd.WORKED: Wording(
        "idle_stays_worked", "Its GPUs work again. The job stays opportunistic until this attempt ends."
    ),
    IdleEnd.UNKNOWN: Wording(
        "idle_stays_unknown",
        "Nothing was heard of its GPUs for some minutes. The job stays opportunistic until this attempt ends.",
    ),
    IdleEnd.EXEMPT: Wording(
        "idle_stays_exempt",
        "It is excepted from the idle policy now. The job stays opportunistic until this attempt ends.",
    ),
    IdleEnd.POLICY: Wording(
        "idle_stays_policy", "The idle policy was changed. The job stays opportunistic until this attempt ends."
    ),
}
"""The same after the warning was carried out."""
