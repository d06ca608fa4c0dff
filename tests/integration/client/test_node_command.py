"""`berth node` at a real server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.integration.client.conftest import token_for
from tests.support.people.shell import Shell

if TYPE_CHECKING:
    from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db(transaction=True)


def test_nodes_are_drained_by_administrators_alone(world: World, url: str, shell: Shell) -> None:
    from portal.accounts.models import ClusterRole
    from tests.support.people.cast import person

    world.node("gpu01")
    refused = shell.berth("node", "drain", "gpu01", code=77)
    assert refused.startswith("berth: ")
    shell.token = token_for(person("root", ClusterRole.ADMIN))
    assert shell.berth("node", "drain", "gpu01", "-m", "new fans") == "node gpu01 is draining\n"
    listed = shell.berth("node", "ls")
    assert "draining" in listed
    assert "new fans" in listed
    assert json.loads(shell.berth("node", "open", "gpu01", "--json"))["intent"] == "open"
    assert "There is no node" in shell.berth("node", "cordon", "gpu99", code=66)
    assert "vision" in shell.berth("vc")
    assert "highest class of members" in shell.berth("vc", "vision")
    assert "A100" in shell.berth("node", "show", "gpu01")


def test_a_server_is_accepted_once_its_claims_were_shown(world: World, shell: Shell) -> None:
    from portal.accounts.models import ClusterRole
    from tests.support.cluster.scripted_node import ScriptedNode
    from tests.support.people.cast import person

    shell.token = token_for(person("root", ClusterRole.ADMIN))
    node = ScriptedNode("gpu01", accept=False, root="/mnt/data")
    node.report()
    shown = shell.berth("node", "accept", "gpu01", typed="n\n", code=1)
    assert "storages: /mnt/data" in shown
    assert node.row.pending
    told = shell.berth("node", "accept", "gpu01", "--no-cpu-tasks", typed="y\n")
    assert "node gpu01 is accepted; tasks without GPUs: off" in told
    assert shell.berth("node", "cpu-tasks", "gpu01", "on") == "node gpu01: tasks without GPUs: on\n"
    assert "is not one of 'on', 'off'" in shell.berth("node", "cpu-tasks", "gpu01", "perhaps", code=2)
    assert "claims nothing" in shell.berth("node", "accept", "gpu01", "--yes", code=1)
