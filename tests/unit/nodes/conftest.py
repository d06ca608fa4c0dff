"""A node of which a test begins and ends the agent itself."""

from pathlib import Path

import pytest

from tests.support.cluster.supervised_node import Node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node whose lives a test begins itself, with a runtime in memory."""
    return Node(tmp_path)
