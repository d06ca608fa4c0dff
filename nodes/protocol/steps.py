"""Steps of a training: the pattern by which a job file finds them in the log, and the file that a program rewrites.

The pattern is matched by RE2, whose time grows with the text alone; the agent limits what the text takes.
"""

from __future__ import annotations

from typing import Any

import re2

LONGEST_PATTERN = 200
HIGHEST_STEP = 10**15


class PatternInvalid(ValueError):
    """The text is no pattern for steps; the message says why, after "must be"."""


def steps_pattern(text: str) -> Any:
    """The compiled pattern, for bytes; its first group is the step's number. Raises PatternInvalid."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        pattern = re2.compile(text.encode(), options)
    except re2.error as error:
        told = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        raise PatternInvalid(f"a regular expression of RE2, which says: {told}") from error
    if pattern.groups == 0:
        raise PatternInvalid(r"a pattern with the step's number in its first group, such as step (\d+)")
    if pattern.search(b""):
        raise PatternInvalid("a pattern that an empty line does not match")
    return pattern
