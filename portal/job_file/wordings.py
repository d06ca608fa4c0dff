"""Hints on a valid job file."""

from __future__ import annotations

from nodes.protocol.wording import Wording

BEYOND_SHARE = Wording(
    "beyond_share",
    "A task of %(role)s wants %(wanted)s, and the share of its GPUs is %(share)s: it starts where the rest is idle, "
    "and may be ended for a job that has a right to it.",
)
UNUSED = Wording("unused_key", "%(key)s has no effect here: nothing reads this key.")
UNUSED_GUESSED = Wording(
    "unused_key_guessed", "%(key)s has no effect here: nothing reads this key; did you mean %(guess)s?"
)
UNUSED_MORE = Wording("unused_keys", "%(number)s more keys have no effect here: nothing reads them.")
