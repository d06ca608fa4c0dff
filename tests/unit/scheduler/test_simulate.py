"""``manage.py simulate``: two files in, a table, JSON, events and a chart out; what is wrong is said in words."""

from __future__ import annotations

import gzip
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

HEADER = "job_id,submit_time_s,vc,user,gpus,nodes,gpus_per_node,cpu,mem_gb,duration_s,status,priority"
TRACE = f"{HEADER}\nv1,0,vision,,4,1,4,,,100,,\nv2,10,vision,,4,1,4,,,50,,\ns1,20,speech,,4,1,4,,,30,,\n"
CLUSTER = {"nodes": 2, "gpus_per_node": 4, "vc_nodes": {"vision": 1, "speech": 1}}
HIVED = """
physicalCluster:
  cellTypes:
    node: {childCellType: A100, childCellNumber: 4, isNodeLevel: true}
  physicalCells:
  - {cellType: node, cellAddress: n1}
  - {cellType: node, cellAddress: n2}
virtualClusters:
  vision: {virtualCells: [{cellType: node, cellNumber: 1}]}
  speech: {virtualCells: [{cellType: node, cellNumber: 1}]}
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a cluster and a trace."""
    (tmp_path / "cluster.json").write_text(json.dumps(CLUSTER))
    (tmp_path / "cluster.yaml").write_text(HIVED)
    (tmp_path / "jobs.csv").write_text(TRACE)
    return tmp_path


def simulate(folder: Path, *words: str, cluster: str = "cluster.json", jobs: str = "jobs.csv") -> str:
    out = StringIO()
    files = ("--cluster", str(folder / cluster), "--jobs", str(folder / jobs))
    call_command("simulate", *files, "--quota", "gpu", *words, stdout=out)
    return out.getvalue()


def results(folder: Path, *words: str, **names: str) -> dict[str, Any]:
    simulate(folder, "--out", str(folder / "out.json"), *words, **names)
    found: dict[str, Any] = json.loads((folder / "out.json").read_text())
    return found


def test_the_results_are_json_with_a_summary_and_every_job(files: Path) -> None:
    found = results(files, "--policy", "private")
    assert [job["job_id"] for job in found["jobs"]] == ["v1", "v2", "s1"]
    second = found["jobs"][1]
    assert (second["first_start_s"], second["finish_s"], second["queue_s"], second["preemptions"]) == (100, 150, 90, 0)
    (placement,) = second["placements"]
    assert (placement["start_s"], placement["end_s"], placement["standing"]) == (100, 150, "guaranteed")
    assert list(placement["nodes"].values()) == [4]
    summary = found["summary"]
    assert summary["settings"]["policy"] == "private"
    assert (summary["count"], summary["queue_s"]["mean"], summary["makespan_s"]) == (3, 30, 150)
    assert summary["per_vc"]["speech"]["completion_s"]["p95"] == 30
    assert summary["wall_s"] >= 0


def test_another_policy_is_compared_with_each_team_alone(files: Path) -> None:
    later = results(files, "--policy", "fifo")["summary"]["later_than_private"]
    assert later == {"completions": 1, "first_starts": 1}


def test_the_table_has_a_line_for_each_team_and_one_for_all(files: Path) -> None:
    lines = simulate(files, "--policy", "private").splitlines()
    assert [line.split("│")[1].strip() for line in lines if line.startswith("│")] == ["speech", "vision", "all"]


def test_events_are_json_lines_in_the_order_of_time(files: Path) -> None:
    simulate(files, "--policy", "private", "--events", str(files / "events.jsonl"))
    events = [json.loads(line) for line in (files / "events.jsonl").read_text().splitlines()]
    assert [(one["time_s"], one["event"], one["job_id"]) for one in events] == [
        (0, "submit", "v1"),
        (0, "start", "v1"),
        (10, "submit", "v2"),
        (20, "submit", "s1"),
        (20, "start", "s1"),
        (50, "finish", "s1"),
        (100, "finish", "v1"),
        (100, "start", "v2"),
        (150, "finish", "v2"),
    ]


def test_the_chart_is_a_picture(files: Path) -> None:
    simulate(files, "--policy", "private", "--plot", str(files / "chart.png"))
    assert (files / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_packed_traces_and_configurations_in_hiveds_style_give_the_same(files: Path) -> None:
    (files / "jobs.csv.gz").write_bytes(gzip.compress(TRACE.encode()))
    packed = results(files, "--policy", "private", cluster="cluster.yaml", jobs="jobs.csv.gz")
    plain = results(files, "--policy", "private")
    assert [job["finish_s"] for job in packed["jobs"]] == [job["finish_s"] for job in plain["jobs"]]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("cluster.json", '{"nodes": 2,', "cluster.json is no JSON: Expecting property name"),
        ("cluster.json", "[]", "cluster.json has neither the key physicalCluster"),
        ("cluster.json", '{"nodes": 2}', "cluster.json has neither the key physicalCluster"),
        ("cluster.json", '{"nodes": 0, "vc_nodes": {"a": 1}}', "cluster.json: nodes: 0 is no whole number"),
        ("jobs.csv", "job_id,vc\nv1,vision\n", "jobs.csv: line 1: submit_time_s is a column that is missing"),
        ("jobs.csv", TRACE.replace("s1,20", "s1,-20"), "jobs.csv: line 4: submit_time_s -20 is negative"),
        ("jobs.csv", TRACE.replace("speech", "sound"), "jobs.csv: line 4: vc sound is none of the cluster's: speech"),
        ("jobs.csv", TRACE.replace("s1,20,speech,,4,1,4", "s1,20,speech,,8,2,4"), "line 4: .*8 gpu at once.*owns 4"),
        (
            "jobs.csv",
            TRACE.replace("s1,20,speech,,4,1,4", "s1,20,speech,,5,1,5"),
            "line 4: .*5 GPUs on one node.*has 4",
        ),
        ("jobs.csv", "", "jobs.csv: line 1: job_id is a column that is missing"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_its_line_and_the_number(
    files: Path, name: str, text: str, sentence: str
) -> None:
    (files / name).write_text(text)
    with pytest.raises(CommandError, match=sentence):
        simulate(files, "--out", str(files / "out.json"))
    assert not (files / "out.json").exists()


def test_every_fault_of_a_configuration_is_told_with_its_path(files: Path) -> None:
    broken = HIVED.replace("cellType: node, cellNumber", "cellType: rack, cellNumber")
    (files / "cluster.yaml").write_text(broken)
    with pytest.raises(CommandError) as refused:
        simulate(files, cluster="cluster.yaml")
    assert [line.split(": ")[1] for line in str(refused.value).splitlines()] == [
        "virtualClusters.vision.virtualCells[0].cellType",
        "virtualClusters.speech.virtualCells[0].cellType",
    ]


def test_faults_beyond_the_first_twenty_are_counted(files: Path) -> None:
    rows = [f"j{number},-1,vision,,1,,,,,1,," for number in range(25)]
    (files / "jobs.csv").write_text("\n".join([HEADER, *rows]))
    with pytest.raises(CommandError) as refused:
        simulate(files)
    lines = str(refused.value).splitlines()
    assert (len(lines), lines[-1].split(": ")[-1]) == (21, "and 5 more")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [(b"\xff\xfe", "is no UTF-8 text: byte 0 is 0xff"), (b"\x1f\x8b\x08broken", "cannot be read")],
)
def test_a_file_that_is_no_text_is_refused(files: Path, data: bytes, sentence: str) -> None:
    (files / "jobs.csv").write_bytes(data)
    with pytest.raises(CommandError, match=sentence):
        simulate(files)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--grace", "-1"), "--grace -1.0 is no number of seconds from 0"),
        (("--grace", "nan"), "--grace nan is no number of seconds from 0"),
        (("--out", "/nowhere/out.json"), "--out /nowhere/out.json is no file in a folder that is there"),
        (("--policy", "lottery"), "invalid choice: 'lottery'"),
        (("--jobs", "/nowhere.csv"), "/nowhere.csv cannot be read: .*No such file"),
    ],
)
def test_an_option_that_cannot_be_is_refused(files: Path, words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        simulate(files, *words)


@pytest.mark.parametrize(
    ("words", "settings", "column"),
    [
        (
            ("--preemption", "restart", "--park", "1", "--park-patience", "60"),
            {"park": {"patience_ms": 60_000}},
            "parked",
        ),
        (("--elastic", "0.5"), {"elastic": {"share": 0.5, "efficiency": 0.8}}, "resized"),
        (("--idle", "0.5", "--when-idle", "park"), {"sessions": {"idle": "park", "busy": 0.25}}, "GPU back: p50 s"),
        (("--share", "4", "--slowdown", "0.1"), {"groups": {"most": 4, "slowdown": 0.1}}, "first output: p50 s"),
        (("--turns",), {"groups": {"most": 4, "turns": True}}, "first output: p50 s"),
    ],
)
def test_an_addition_is_told_in_the_settings_and_has_a_column(
    files: Path, words: tuple[str, ...], settings: dict[str, dict[str, Any]], column: str
) -> None:
    told = results(files, *words)["summary"]["settings"]
    for name, rule in settings.items():
        assert rule.items() <= told[name].items()
    assert column in simulate(files, *words)
    assert column not in simulate(files)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--preemption", "restart", "--park", "0"), "--park 0 is no number of GPUs from 1"),
        (("--park", "1"), "--park 1 needs --preemption restart: with --preemption keep a victim loses nothing"),
        (
            ("--preemption", "restart", "--park", "1", "--park-patience", "-3"),
            "--park-patience -3.0 is no number of seconds from 0",
        ),
        (
            ("--preemption", "restart", "--park", "1", "--park-patience", "nan"),
            "--park-patience nan is no number of seconds from 0",
        ),
        (
            ("--preemption", "restart", "--park", "1", "--park-patience", "inf"),
            "--park-patience inf is no number of seconds from 0",
        ),
        (("--preemption", "restart", "--park", "1", "--park-room", "-1"), "--park-room -1 is no number of GPUs from 0"),
        (("--elastic", "1.5"), "--elastic 1.5 is no share from 0 to 1"),
        (("--elastic", "nan"), "--elastic nan is no share from 0 to 1"),
        (("--elastic", "0.5", "--efficiency", "0.4"), "--efficiency 0.4 is no efficiency from 0.5 to 1"),
        (("--efficiency", "0.9"), "--efficiency 0.9 says more about --elastic, which is not given"),
        (("--idle", "-1"), "--idle -1.0 is no share from 0 to 1"),
        (("--idle", "0.2", "--busy", "2"), "--busy 2.0 is no share from 0 to 1"),
        (("--share", "1"), "--share 1 is no number of parts from 2 to 8"),
        (("--share", "2", "--slowdown", "1"), "--slowdown 1.0 is no share from 0 to 0.99"),
        (("--turns", "--slowdown", "0.1"), "--slowdown 0.1 says more about --share, which is not given"),
        (
            ("--turns", "--share", "2"),
            "--share 2 and --turns are simulated one at a time: give one of --park, --elastic",
        ),
        (("--policy", "fifo", "--turns"), "--turns needs --policy capacity: --policy fifo lends nothing"),
    ],
)
def test_an_addition_that_cannot_be_is_refused(files: Path, words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        simulate(files, *words)
