"""Sentences of parking."""

from __future__ import annotations

from nodes.protocol.wording import Wording

NOT_HERE = Wording("parking_not_here", "virtual cluster %(vc)s has no jobs parked, which its leads may change")
NEVER = Wording("parking_never", "its job file says park: never")
NOT_ONE = Wording("parking_not_one", "only a job of one task with one GPU can be parked")
NOT_RUNNING = Wording("parking_not_running", "its task does not run")
ON_LOAN = Wording("parking_on_loan", "its GPU is on loan, and who has the right to it may take it at any time")
OLD_AGENT = Wording("parking_old_agent", "its agent is of an older release")
NOT_THERE = Wording("parking_not_there", "server %(node)s parks nothing: %(why)s")
BY = Wording("parking_by", "%(who)s parked it")
ASKED = Wording("parking_asked", "Its GPU memory is moved to its server's: %(why)s.")
PARKED = Wording(
    "parking_parked",
    "It is parked: its %(mb)s MB of GPU memory are in the memory of %(node)s, and its GPU is lent until it is resumed.",
)
NOT_PARKED = Wording("parking_not_parked", "It was not parked: %(why)s.")
WANTED = Wording("parking_wanted", "%(who)s resumed it: it goes on once its GPU is free.")
RESUMED = Wording("parking_resumed", "It has its GPU on %(node)s back; it is being put back there.")
GOES_ON = Wording("parking_goes_on", "It goes on where it was, after %(time)s off its GPU.")
WAITS = Wording("parking_waits", "It is not back on its GPU yet: %(why)s.")
PLACE_LOST = Wording(
    "parking_place_lost",
    "Its GPU was given to others while it was parked: it lost its quota, to a higher priority or to a smaller quota.",
)
SECONDS = Wording("parking_seconds", "%(number)s s")
