"""Jobs that hold GPUs and do not use them: how long, and what becomes of them. ``docs/decisions/idle-policy.md``."""
