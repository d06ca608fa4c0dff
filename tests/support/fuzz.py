"""How many requests are made from a document for each of its operations."""

import os

from hypothesis import HealthCheck, settings

SOME = settings(
    max_examples=int(os.environ.get("BERTH_TEST_EXAMPLES", "6")),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    database=None,
)
"""Few in every run, hundreds in `make soak`."""
