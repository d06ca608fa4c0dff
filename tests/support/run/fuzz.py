"""How many requests are made from a document for each of its operations."""

import os
from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.schemas import BaseSchema

THOROUGH = "BERTH_TEST_EXAMPLES" in os.environ

SOME = settings(
    max_examples=int(os.environ.get("BERTH_TEST_EXAMPLES", "6")),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    database=None,
)
"""Few in every run, hundreds in `make soak`."""


def from_document(document: dict[str, Any]) -> BaseSchema:
    """The tests of a document. What lies at and beyond the border of each parameter, some 50 requests for each
    operation, is asked in `make soak`."""
    made = schemathesis.openapi.from_dict(document)
    made.config.phases.update(phases=["examples", "fuzzing", *(["coverage"] if THOROUGH else [])])
    rejects = made.config.checks.negative_data_rejection
    rejects.expected_statuses = [*rejects.expected_statuses, "413"]  # some bodies have megabytes
    return made
