"""What ``berth-node check`` says of an Engine, and of whether it can give GPUs to containers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodes.agent.check.finding import Verdict
from nodes.agent.check.machine import Cards, engine_findings
from nodes.agent.runtimes.docker.gpu_requests import cdi_devices, gpu_requests

INFO: dict[str, Any] = {
    "ServerVersion": "28.2", "Runtimes": {"runc": {}, "nvidia": {}}, "CgroupVersion": "2", "CgroupDriver": "systemd",
    "DiscoveredDevices": [{"ID": "nvidia.com/gpu=GPU-1"}, {"ID": "nvidia.com/gpu=all"}], "LiveRestoreEnabled": True,
}  # fmt: skip
SEEN, UNSEEN = Cards(("GPU-1",)), Cards(contained=True)


@pytest.mark.parametrize(
    ("name", "told", "verdict", "words"),
    [
        ("cgroup", {"CgroupVersion": "1"}, Verdict.WARNING, "version 1, driver systemd -> Start the kernel with"),
        (
            "live-restore",
            {"LiveRestoreEnabled": False},
            Verdict.WARNING,
            'ends every task -> Put {"live-restore": true}',
        ),
    ],
)
def test_what_an_engine_lacks_is_told_with_its_cure(
    name: str, told: dict[str, Any], verdict: Verdict, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    well = {line.name: line for line in engine_findings(INFO, SEEN)}
    assert {line.verdict for line in well.values()} == {Verdict.OK}
    assert well["cdi"].text == "2 devices"
    lines = {line.name: line for line in engine_findings({**INFO, **told}, SEEN)}
    assert (lines[name].verdict, words in f"{lines[name].text} -> {lines[name].cure}") == (verdict, True), lines[name]
    assert [one for one in lines if lines[one] != well[one]] == [name]
    assert {"toolkit", "cdi"} & {line.name for line in engine_findings(INFO, None)} == set()


@pytest.mark.parametrize(
    ("driver", "devices", "cards", "warned"),
    [
        ("systemd", None, SEEN, True),
        ("cgroupfs", None, SEEN, False),
        ("systemd", [{"ID": "nvidia.com/gpu=GPU-1"}], SEEN, False),
        ("systemd", None, None, False),
    ],
    ids=["by the older way", "systemd knows nothing of its containers", "by CDI", "no GPUs"],
)
def test_where_a_daemon_reload_takes_gpus_from_running_containers_is_told_with_the_cure(
    driver: str, devices: list[dict[str, str]] | None, cards: Cards | None, warned: bool
) -> None:
    lines = list(engine_findings({**INFO, "CgroupDriver": driver, "DiscoveredDevices": devices}, cards))
    told = [(line.verdict, "drain the server" in line.cure) for line in lines if line.name == "daemon-reload"]
    assert told == ([(Verdict.WARNING, True)] if warned else [])


BY_UUID, BY_INDEX = [{"ID": "nvidia.com/gpu=GPU-1"}], [{"ID": "nvidia.com/gpu=0"}, {"ID": "other.com/x=GPU-1"}]


@pytest.mark.parametrize(
    ("runtimes", "devices", "command", "cards", "toolkit", "cdi"),
    [
        ((), BY_UUID, "", SEEN, (Verdict.OK, "by CDI"), (Verdict.OK, "1 devices")),
        ((), BY_UUID, "", Cards(("GPU-1", "GPU-2")), (Verdict.FAILED, "is missing"), (Verdict.WARNING, "by its UUID")),
        ((), BY_INDEX, "", SEEN, (Verdict.FAILED, "is missing"), (Verdict.WARNING, "uuid")),
        ((), None, "", SEEN, (Verdict.FAILED, "Install NVIDIA's"), (Verdict.WARNING, "the older way")),
        (
            (),
            None,
            "nvidia-ctk",
            SEEN,
            (Verdict.FAILED, "without nvidia-container-runtime-hook"),
            (Verdict.WARNING, ""),
        ),
        ((), None, "nvidia-container-runtime-hook", SEEN, (Verdict.OK, "there"), (Verdict.WARNING, "")),
        (("nvidia",), None, "", SEEN, (Verdict.OK, "there"), (Verdict.WARNING, "Install NVIDIA's")),
        ((), None, "", replace(SEEN, contained=True), (Verdict.OK, "gave this container"), (Verdict.WARNING, "")),
        ((), BY_UUID, "", UNSEEN, (Verdict.OK, "by CDI"), (Verdict.OK, "1 devices")),
        ((), None, "", UNSEEN, (Verdict.WARNING, "are not seen here"), (Verdict.WARNING, "the older way")),
        ((), [BY_INDEX[1]], "", UNSEEN, (Verdict.WARNING, "are not seen here"), (Verdict.WARNING, "no CDI devices")),
    ],
    ids=[
        "CDI without the runtime's configuration",
        "CDI knows only one of two",
        "CDI knows them by index only",
        "nothing",
        "the toolkit without its hook, for CDI alone",
        "the hook alone",
        "an Engine before CDI",
        "a container that got its GPUs",
        "a container without GPUs, and CDI",
        "a container without GPUs, and nothing to be seen",
        "a container without GPUs, and another maker's CDI",
    ],
)
def test_the_toolkit_is_there_where_a_container_gets_its_gpus(
    runtimes: tuple[str, ...], devices: list[dict[str, str]] | None, command: str, cards: Cards,
    toolkit: tuple[Verdict, str], cdi: tuple[Verdict, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if command:
        (tmp_path / command).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    info = {**INFO, "Runtimes": dict.fromkeys(runtimes, {}), "DiscoveredDevices": devices}
    lines = {line.name: line for line in engine_findings(info, cards)}
    for name, (verdict, words) in {"toolkit": toolkit, "cdi": cdi}.items():
        line = lines[name]
        assert (line.verdict, words in f"{line.text} {line.cure}") == (verdict, True), line
    (asked,) = gpu_requests(cards.uuids or ("GPU-1",), cdi_devices(info))
    assert (asked["Driver"] == "cdi") is (lines["cdi"].verdict is Verdict.OK), "asked for as it was judged"
