"""Quotas and cells change while jobs run: shown beforehand, and no job is stopped by it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command

from portal.accounts.models import ClusterRole
from portal.cluster.services.configuration import configuration_export
from portal.jobs.models import Allocation, Job, JobEvent, TaskAttempt
from portal.jobs.services.allocation import task_attempt_release
from portal.jobs.services.stop import job_stop
from portal.jobs.services.submit import job_submit
from portal.teams.models import QuotaChange, QuotaLine
from portal.teams.services.rules import firm_right_set
from portal.teams.services.teams import member_set, vc_create
from tests.integration.cluster.test_configuration import RACK
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import Api, person

pytestmark = pytest.mark.django_db

BACK = "2099-10-25"
"""A last Sunday of October."""


@pytest.fixture
def busy(world: World) -> World:
    """Vision owns 8 GPUs of one node and runs two jobs of 4 on them."""
    world.node("gpu01", gpus=8)
    vc_create(name="audio", now=world.now)
    for name in ("first", "second"):
        world.submit(name=name, gpu=4)
    world.settle()
    assert standings() == {"first": "guaranteed", "second": "guaranteed"}
    return world


@pytest.fixture
def admin(busy: World) -> Api:
    return Api(person("root", ClusterRole.ADMIN))


def standings() -> dict[str, str]:
    rows = Allocation.objects.filter(released_at__isnull=True, task_attempt__task__job__state="running")
    return dict(rows.values_list("task_attempt__task__job__name", "standing"))


def to(count: int) -> dict[str, Any]:
    return {"lines": [{"vc": "vision", "cell_type": "A100", "count": count}]}


def demoted(answer: Any, what: str = "demoted") -> list[tuple[str, int]]:
    return [(job["label"], job["gpus"]) for job in answer.json()[what]]


def test_a_dry_run_lists_the_jobs_that_would_be_demoted_and_changes_nothing(busy: World, admin: Api) -> None:
    answer = admin.call("PATCH", "quotas?dry_run=true", to(4))
    assert (answer.status_code, demoted(answer)) == (200, [("alice/second#1", 4)])
    busy.settle()
    assert QuotaLine.objects.get().count == 8
    assert standings() == {"first": "guaranteed", "second": "guaranteed"}


def test_a_smaller_quota_stops_no_job_and_the_demoted_one_runs_on_loan(busy: World, admin: Api) -> None:
    assert demoted(admin.call("PATCH", "quotas", to(4))) == [("alice/second#1", 4)]
    busy.settle()
    assert standings() == {"first": "guaranteed", "second": "borrowed"}
    assert set(Job.objects.values_list("state", flat=True)) == {"running"}


def leave_alone(busy: World, name: str) -> None:
    """The other job has ended, and no cycle has looked since."""
    job_stop(job=Job.objects.exclude(name=name).get(), now=busy.now, actor=busy.user)
    busy.obeyed()


def test_a_job_that_only_gets_another_cell_of_its_quota_is_neither_named_nor_told(busy: World, admin: Api) -> None:
    leave_alone(busy, "second")
    assert demoted(admin.call("PATCH", "quotas?dry_run=true", to(4))) == []
    assert demoted(admin.call("PATCH", "quotas", to(4))) == []
    applied = busy.cycle().applied
    assert (applied.demoted, applied.promoted, applied.skipped) == (0, 0, 0)
    held = Allocation.objects.filter(released_at__isnull=True)
    assert sorted(held.values_list("virtual_cell", flat=True)) == [f"vision/A100/{one}" for one in range(4)]
    assert set(held.values_list("standing", "turns")) == {("guaranteed", "")}
    assert (standings(), told()) == ({"second": "guaranteed"}, [])


def test_a_job_that_is_never_preempted_keeps_its_right_in_a_cell_that_another_gives_up(world: World) -> None:
    world.node("gpu01", gpus=8)
    firm_right_set(vc=world.vc, username="alice", gpus=4, last_day=world.now.date(), now=world.now, actor="root")
    for name in ("gone", "firm"):
        world.submit(name=name, gpu=4, berth={"preemptible": False} if name == "firm" else {})
    world.settle()
    leave_alone(world, "firm")
    world.submit(name="other", gpu=4)
    world.settle()
    assert standings() == {"firm": "guaranteed", "other": "guaranteed"}
    assert demoted(Api(person("root", ClusterRole.ADMIN)).call("PATCH", "quotas", to(4))) == [("alice/other#1", 4)]
    applied = world.cycle().applied
    assert (applied.demoted, applied.promoted, applied.skipped) == (1, 0, 0)
    assert standings() == {"firm": "guaranteed", "other": "borrowed"}
    assert told() == ["Its 4 GPUs are on loan from now on and may be taken back: quota."]


def test_of_a_job_that_is_no_gang_only_tasks_without_a_cell_lose_their_right(world: World) -> None:
    world.node("gpu01", gpus=8)
    world.submit(name="loose", instances=8, gang=False)
    world.settle()
    for cell in ("vision/A100/0", "vision/A100/1"):
        task_attempt_release(row=TaskAttempt.objects.get(allocations__virtual_cell=cell), now=world.now)
    answer = Api(person("root", ClusterRole.ADMIN)).call("PATCH", "quotas", to(3))
    assert demoted(answer) == [("alice/loose#1", 3)], "six run, three cells are left"
    applied = world.cycle().applied
    assert (applied.demoted, applied.promoted) == (1, 0)
    assert told() == ["Its 3 GPUs are on loan from now on and may be taken back: quota."]


def told() -> list[str]:
    """What jobs' owners read of changes of their right."""
    return [one.message for one in JobEvent.objects.filter(code__in=["demoted", "promoted"])]


def test_a_job_whose_gpus_are_wanted_at_once_is_named_as_taken_back(world: World) -> None:
    world.node("gpu01", gpus=8)
    carol, admin = person("carol"), Api(person("root", ClusterRole.ADMIN))
    member_set(vc=vc_create(name="audio", now=world.now), user=carol, role="member", now=world.now)
    admin.call("PATCH", "quotas", shares(4, 4))
    world.submit(name="mine", gpu=4)
    for name in ("theirs", "next"):
        text = job_file(name=name, gpu=4, defaults={"virtualCluster": "audio"})
        job_submit(user=carol, text=text, now=world.now)
    world.settle()
    look = admin.call("PATCH", "quotas?dry_run=true", shares(0, 8))
    assert (demoted(look), demoted(look, "preempted")) == ([], [("alice/mine#1", 4)])
    admin.call("PATCH", "quotas", shares(0, 8))
    world.settle()
    assert standings() == {"theirs": "guaranteed", "next": "guaranteed"}


def shares(vision: int, audio: int) -> dict[str, Any]:
    counts = {"vision": vision, "audio": audio}
    return {"lines": [{"vc": vc, "cell_type": "A100", "count": count} for vc, count in counts.items()]}


def test_what_was_demoted_comes_back_into_a_quota_that_grows_again(busy: World, admin: Api) -> None:
    for count in (4, 8):
        admin.call("PATCH", "quotas", to(count))
        busy.settle()
    assert standings() == {"first": "guaranteed", "second": "guaranteed"}


def test_quotas_are_changed_only_from_the_version_that_was_read(busy: World, admin: Api) -> None:
    tag = admin.call("GET", "quotas").headers["ETag"]
    assert admin.call("PATCH", "quotas", to(7), If_Match=tag).status_code == 200
    assert admin.call("PATCH", "quotas", to(6), If_Match=tag).status_code == 409
    assert admin.call("PATCH", "quotas", to(6), If_Match="x").status_code == 400


def test_a_quota_that_cannot_be_is_refused_with_its_numbers_in_a_dry_run_too(busy: World, admin: Api) -> None:
    for query in ("?dry_run=true", ""):
        answer = admin.call("PATCH", f"quotas{query}", to(9))
        assert answer.status_code == 400
        assert answer.json()["errors"] == [
            {"path": "quota.A100", "message": "the quotas need 9 A100, 8 are there", "code": "too_large"}
        ]


def test_a_deadline_week_is_planned_shown_with_its_return_and_kept_by_the_cycle(busy: World, admin: Api) -> None:
    start, end = busy.now + timedelta(hours=1), busy.now + timedelta(hours=2)
    body = to(4) | {"starts_at": start.isoformat(), "ends_at": end.isoformat(), "reason": "audio's deadline"}
    look = admin.call("POST", "quota-changes?dry_run=true", body)
    assert (look.status_code, demoted(look), QuotaChange.objects.count()) == (200, [("alice/second#1", 4)], 0)
    planned = admin.call("POST", "quota-changes", body)
    assert planned.status_code == 201
    assert [(line["count"], line["gpus"]) for line in planned.json()["returns"]] == [(8, 8)]
    (listed,) = admin.call("GET", "quota-changes").json()
    assert (listed["reason"], listed["actor"]) == ("audio's deadline", "root")
    seen = []
    for moment in (busy.now, start, end):
        busy.cycle(now=moment)
        seen.append(standings()["second"])
    assert seen == ["guaranteed", "borrowed", "guaranteed"]
    assert set(Job.objects.values_list("state", flat=True)) == {"running"}


def test_a_planned_change_is_withdrawn(busy: World, admin: Api) -> None:
    body = to(4) | {"starts_at": (busy.now + timedelta(hours=1)).isoformat()}
    key = admin.call("POST", "quota-changes", body).json()["id"]
    assert admin.call("DELETE", f"quota-changes/{key}").status_code == 204
    assert admin.call("DELETE", f"quota-changes/{key}").status_code == 409
    assert admin.call("DELETE", "quota-changes/999").status_code == 404


# ---------------------------------------------------------------- configuration


def smaller() -> dict[str, Any]:
    """The cluster as it is, with half of vision's quota."""
    document: dict[str, Any] = json.loads(json.dumps(configuration_export()))
    document["virtualClusters"]["vision"]["virtualCells"][0]["cellNumber"] = 4
    return document


def test_an_import_by_rest_shows_and_then_does(busy: World, admin: Api) -> None:
    document = smaller()
    look = admin.call("PUT", "cluster?dry_run=true", document)
    assert (look.json()["dry_run"], demoted(look)) == (True, [("alice/second#1", 4)])
    line = {"vc": "vision", "cell_type": "A100", "chain": "", "before": 8, "after": 4}
    assert look.json()["quotas"] == [line]
    assert admin.call("GET", "cluster").json() == configuration_export() != document
    assert demoted(admin.call("PUT", "cluster", document)) == [("alice/second#1", 4)]
    assert admin.call("GET", "cluster").json() == document
    busy.settle()
    assert standings() == {"first": "guaranteed", "second": "borrowed"}


@pytest.mark.parametrize("body", [[], "x", {"physicalCluster": 3}, {"unknown": {}}, {"virtualClusters": {"a/b": {}}}])
def test_what_is_no_configuration_is_refused(busy: World, admin: Api, body: object) -> None:
    assert admin.call("PUT", "cluster", json.dumps(body)).status_code == 400
    assert QuotaLine.objects.get().count == 8


def command(*words: str) -> str:
    out = StringIO()
    call_command("cluster", *words, stdout=out)
    return out.getvalue()


def test_the_command_exports_what_it_imports(busy: World, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(smaller()))
    told = command("import", str(file), "--dry-run")
    assert "alice/second#1 of vision runs on, but its GPUs are on loan." in told
    assert "Quota of vision, A100: 8 -> 4." in told
    assert "Nothing was changed." in told
    assert yaml.safe_load(command("export")) != smaller()
    assert "Done: 1 nodes, 2 virtual clusters, 1 jobs demoted." in command("import", str(file))
    assert yaml.safe_load(command("export")) == yaml.safe_load(file.read_text())


def test_the_command_tells_every_fault(busy: World, tmp_path: Path) -> None:
    bad = json.loads(json.dumps(RACK))
    bad["virtualClusters"]["audio"]["virtualCells"][0]["cellType"] = "rack.none"
    bad["virtualClusters"]["vision"]["pinnedCells"] = [{"pinnedCellId": "nowhere"}]
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(bad))
    with pytest.raises(CommandError) as error:
        command("import", str(file))
    assert "virtualClusters.audio.virtualCells[0]" in str(error.value)
    assert "virtualClusters.vision.pinnedCells[0]" in str(error.value)
    twice = json.dumps(RACK).replace('"audio"', '"vision"')
    for text, complaint in (
        ("{", "neither YAML nor JSON"), ("[1]", "cannot be used"), (twice, "the key vision stands twice"),
    ):  # fmt: skip
        file.write_text(text)
        with pytest.raises(CommandError, match=complaint):
            command("import", str(file))
    with pytest.raises(CommandError, match="cannot be read"):
        command("import", str(tmp_path / "absent"))


@pytest.mark.parametrize(
    ("starts_at", "ends_at", "status"),
    [
        ("02:50:00+02:00", "02:10:00+01:00", 201),
        ("02:10:00+02:00", "02:10:00+01:00", 201),
        ("02:10:00+01:00", "02:50:00+02:00", 400),
        ("02:10:00+01:00", "02:10:00+02:00", 400),
    ],
)
def test_the_night_in_which_clocks_go_back_has_its_hour_twice(
    busy: World, admin: Api, settings: Any, starts_at: str, ends_at: str, status: int
) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    change = {**to(4), "starts_at": f"{BACK}T{starts_at}", "ends_at": f"{BACK}T{ends_at}"}
    answer = admin.call("POST", "quota-changes", change)
    assert answer.status_code == status
    if status == 400:
        assert [one["path"] for one in answer.json()["errors"]] == ["ends_at"]
    else:
        row = QuotaChange.objects.get()
        assert (row.starts_at, row.ends_at) == tuple(map(datetime.fromisoformat, list(change.values())[1:]))


def test_changes_of_one_line_in_both_of_those_hours_do_not_overlap(busy: World, admin: Api, settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    for start, end in (("02:00:00+02:00", "02:59:00+02:00"), ("02:00:00+01:00", "02:59:00+01:00")):
        change = {**to(4), "starts_at": f"{BACK}T{start}", "ends_at": f"{BACK}T{end}"}
        assert admin.call("POST", "quota-changes", change).status_code == 201
