"""Sentences on a job file that are stored of a job: hints, and why it may not start."""

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
AND_MORE = Wording("and_more", "%(names)s and %(number)s more")
IMAGE_REFUSED = Wording("image_refused", "%(image)s is not among the images that %(vc)s may run: %(patterns)s")
