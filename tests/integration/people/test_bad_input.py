"""What cannot be is refused with names and numbers, by REST, on the page and at the command line; nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command

from portal.accounts.models import ClusterRole, User
from portal.hardware.models import CellType, Node
from portal.jobs.models import Job
from portal.teams.models import QuotaLine, VirtualCluster
from tests.integration.cluster.test_configuration import RACK
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db

Document = dict[str, Any]


def quota_too_large(file: Document) -> None:
    file["virtualClusters"]["audio"]["virtualCells"][0]["cellNumber"] = 2


def unknown_cell_type(file: Document) -> None:
    file["physicalCluster"]["physicalCells"][0]["cellType"] = "pod"


def unknown_path(file: Document) -> None:
    file["virtualClusters"]["audio"]["virtualCells"][0]["cellType"] = "rack.quad"


def pinned_twice(file: Document) -> None:
    file["physicalCluster"]["physicalCells"][0]["cellChildren"][1]["pinnedCellId"] = "corner"


def pinned_cell_of_two(file: Document) -> None:
    file["virtualClusters"]["audio"]["pinnedCells"] = [{"pinnedCellId": "corner"}]


def gpu_in_two_chains(file: Document) -> None:
    file["physicalCluster"]["physicalCells"].append({"cellType": "node", "cellAddress": "gpu02"})


FILES: dict[Callable[[Document], None], dict[str, str]] = {
    quota_too_large: {"virtualClusters": "the quotas need 2 cells of type node in the chain rack, 1 are there"},
    unknown_cell_type: {
        "physicalCluster.physicalCells[0].cellType": "pod is no cell type of this cluster",
        "virtualClusters.vision.virtualCells[0].cellType": "rack.node.pair: no cell of type rack is among",
    },
    unknown_path: {
        "virtualClusters.audio.virtualCells[0].cellType": "rack.quad: there is no such path through the cell types",
    },
    pinned_twice: {
        "physicalCluster.physicalCells[0].cellChildren[1].pinnedCellId": "another cell is called corner already",
    },
    pinned_cell_of_two: {"virtualClusters.audio.pinnedCells": "corner belongs to vision already"},
    gpu_in_two_chains: {"physicalCluster.physicalCells[1]": "GPU 0 of gpu02 is in the chain rack already"},
}


@pytest.fixture
def root(db: None) -> User:
    return person("root", ClusterRole.ADMIN)


def nothing_was_made() -> bool:
    return not (Node.objects.exists() or CellType.objects.exists() or VirtualCluster.objects.exists())


@pytest.mark.parametrize("spoil", FILES)
def test_a_configuration_that_cannot_be_is_refused_by_rest_with_names_and_numbers(
    root: User, spoil: Callable[[Document], None]
) -> None:
    file = deepcopy(RACK)
    spoil(file)
    answer = Api(root).call("PUT", "cluster", file)
    assert answer.status_code == 400
    found = {fault["path"]: fault["message"] for fault in answer.json()["errors"]}
    for path, message in FILES[spoil].items():
        assert found[path].startswith(message), found
    assert nothing_was_made()


@pytest.mark.parametrize("spoil", FILES)
def test_the_same_file_is_refused_at_the_command_line_in_the_same_words(
    db: None, tmp_path: Path, spoil: Callable[[Document], None]
) -> None:
    file = deepcopy(RACK)
    spoil(file)
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump(file, sort_keys=False))
    with pytest.raises(CommandError) as refused:
        call_command("cluster", "import", str(path))
    assert "nothing was changed" in str(refused.value)
    for place, message in FILES[spoil].items():
        assert f"{place}: {message}" in str(refused.value)
    assert nothing_was_made()


LINES: dict[str, tuple[Document, str]] = {
    "more than there is": (
        {"vc": "vision", "cell_type": "A100", "count": 5}, "the quotas need 5 A100, 4 are there",
    ),
    "an unknown cell type": (
        {"vc": "vision", "cell_type": "H100", "count": 1}, "there is no cell type H100",
    ),
    "an unknown team": (
        {"vc": "nowhere", "cell_type": "A100", "count": 1}, "there is no virtual cluster nowhere",
    ),
    "another chain": (
        {"vc": "vision", "cell_type": "A100", "count": 1, "chain": "rack"}, "rack has no A100; chains with it: A100",
    ),
}  # fmt: skip


@pytest.fixture
def world(root: User) -> World:
    made = World()
    made.node("gpu01", gpus=4)
    return made


@pytest.mark.parametrize("name", LINES)
def test_a_quota_that_cannot_be_is_refused_by_rest(world: World, root: User, name: str) -> None:
    line, message = LINES[name]
    answer = Api(root).call("PATCH", "quotas", {"lines": [line]})
    assert (answer.status_code, [fault["message"] for fault in answer.json()["errors"]]) == (400, [message])
    assert QuotaLine.objects.get().count == 4


def test_on_its_page_a_quota_that_cannot_be_keeps_what_was_typed(world: World, root: User) -> None:
    rows = CellType.objects.filter(child__isnull=False)
    typed: dict[str, Any] = {f"cells-{row.pk}-": 0 for row in rows}
    typed |= {f"cells-{CellType.objects.get(child=None).pk}-": 5}
    page = Browser(root).send("/virtual-clusters/vision/quota", **typed, apply="on")
    assert (page.status, "The quotas need 5 A100, 4 are there." in page.text) == (400, True)
    assert "5" in page.attribute("input", "value")
    assert QuotaLine.objects.get().count == 4


def test_a_team_that_is_not_there_has_no_page_and_no_address(world: World, root: User) -> None:
    for path in ("nowhere", "nowhere/rules", "nowhere/quota"):
        assert Browser(root).get(f"/virtual-clusters/{path}").status == 404
    answer = Api(root).call("GET", "virtual-clusters/nowhere")
    assert answer.status_code == 404
    assert answer.json()["detail"] == "There is no virtual cluster nowhere that you may see. You may see: vision."


JOBS: dict[str, tuple[Document, str]] = {
    "more than the quota": (
        {"gpu": 4, "instances": 2}, "Job requests 8 SKUs, exceeds maximum 4 SKUs in VC vision.",
    ),
    "more than any node": (
        {"gpu": 5}, "asks for 5 GPUs per task; the largest node it may use has 4",
    ),
    "a team that is not there": (
        {"defaults": {"virtualCluster": "nowhere"}}, "you may not submit to virtual cluster nowhere; yours: vision",
    ),
    "a SKU that is not there": (
        {"extras": {"hivedScheduler": {"taskRoles": {"worker": {"skuType": "H100"}}}}},
        "no SKU is named H100; known: A100",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", JOBS)
def test_a_job_that_could_never_run_is_refused_by_rest_and_on_the_page(world: World, name: str) -> None:
    changes, message = JOBS[name]
    text = job_file(**changes)
    answer = Api(world.user).call("POST", "jobs", text, kind="text/yaml")
    assert answer.status_code == 400
    assert message in [fault["message"] for fault in answer.json()["errors"]]
    page = Browser(world.user).send("/submit", config=text)
    assert (page.status, message in page.text) == (400, True)
    assert not Job.objects.exists()
