"""A server answers for a storage, and gets tasks that need it, by an administrator's word alone."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from django.utils import timezone

from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause
from portal.accounts.models import AuditEntry, ClusterRole, User
from portal.common.errors import Invalid, Unavailable
from portal.files.selectors import job_folder
from portal.hardware.acceptance import below
from portal.hardware.models import Node
from portal.jobs.models import Job, TaskAttempt
from portal.jobs.services.submit import job_submit
from portal.storages.models import Storage
from portal.storages.selectors.ties import proofs_due
from portal.storages.services.storages import storage_change, storage_create
from portal.storages.services.ties import storage_tie, tie_proven
from portal.storages.ties import SEEN
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

ROOT = "/mnt/berth/data"
NEEDS = {"gangAllocation": True, "storages": [{"name": "data", "mountPath": "/data"}]}
ASCII_WORDS = re.compile(r"[a-z]{3,} [a-z]{2,}")
EXPORTED: dict[str, Any] = {"kind": "nfs", "root": ROOT, "export": "filer:/data"}


@pytest.fixture
def root() -> User:
    return person("root", ClusterRole.ADMIN)


def made(world: World, name: str = "data", **about: Any) -> Storage:
    about = {"root": ROOT, "must_be_mount": False, **about}
    return storage_create(name=name, vcs=[world.vc], now=world.now, actor="root", **about)


def tie(storage: Storage, node: ScriptedNode, tied: bool) -> None:
    storage_tie(storage=storage, node=node.row, tied=tied, actor="root", now=timezone.now())


def mounts(node: ScriptedNode, *roots: str) -> Node:
    node.inventory = replace(node.inventory, storages=roots)
    assert node.report()
    return node.row


def answering(job: Job) -> list[str]:
    return [node.name for node in job_folder(job=job).nodes]


def state(job: Job) -> tuple[str, str]:
    return Job.objects.values_list("state", "waiting_code").get(pk=job.pk)


# ------------------------------------------------------------ files


def test_a_forged_server_that_claims_to_have_mounted_an_export_answers_no_request_for_files(world: World) -> None:
    made(world, "jobs", jobs=True, **EXPORTED)
    forged = world.node("forged", gpus=1)  # it was let in at once, and has seen no storage before
    job = world.submit()
    mounts(forged, ROOT)
    assert forged.row.claims["storages"] == [ROOT]
    with pytest.raises(Unavailable):
        job_folder(job=job)
    forged.accept()
    assert answering(job) == ["forged"]


def test_an_untied_server_answers_for_jobs_alone_that_ran_there(world: World) -> None:
    storage = made(world, "jobs", jobs=True)
    one, two = world.node("gpu01", gpus=1, root=ROOT), world.node("gpu02", gpus=1, root=ROOT)
    jobs = [world.submit(name=name) for name in ("first", "second")]
    world.settle()
    places = dict(TaskAttempt.objects.values_list("node__name", "task__job"))
    here = next(job for job in jobs if job.pk == places["gpu02"])
    assert sorted(answering(here)) == ["gpu01", "gpu02"]
    tie(storage, one, tied=False)
    tie(storage, two, tied=False)
    assert answering(here) == ["gpu02"]
    tie(storage, one, tied=True)
    assert sorted(answering(here)) == ["gpu01", "gpu02"]


def test_an_untied_server_is_neither_told_of_the_storage_nor_counted_among_those_that_lack_it(
    world: World, root: User
) -> None:
    node, storage, api = world.node("gpu01", root=ROOT), made(world, **EXPORTED), Api(root)
    assert [wish.name for wish in node.desired().storages or ()] == ["data"]
    tie(storage, node, tied=False)
    assert node.desired().storages == ()
    told = api.get("storages/data")
    assert (told["nodes"], told["missing"], told["untied"]) == ([], [], ["gpu01"])
    assert not [alert for alert in api.get("alerts") if alert["code"] == "storage_missing"]
    assert "an administrator has untied it from this storage" in Browser(root).get("/cluster/nodes/gpu01").text


# ------------------------------------------------------------ tasks


def test_tasks_that_need_a_storage_come_only_to_servers_that_are_tied_to_it(world: World) -> None:
    storage = made(world)
    one, two = world.node("gpu01", gpus=1, root=ROOT), world.node("gpu02", gpus=1, root=ROOT)
    tie(storage, one, tied=False)
    needs, other = world.submit(extras=NEEDS), world.submit(name="other")
    late = world.submit(name="late", extras=NEEDS)
    world.settle()
    places = dict(TaskAttempt.objects.values_list("task__job", "node__name"))
    assert places == {needs.pk: two.name, other.pk: one.name}
    assert state(late)[0] == "waiting"


def test_where_no_server_is_tied_the_job_waits_and_says_so(world: World) -> None:
    storage, node = made(world), world.node("gpu01", root=ROOT)
    tie(storage, node, tied=False)
    job = world.submit(extras=NEEDS)
    world.settle()
    job.refresh_from_db()
    assert (job.state, job.waiting_code) == ("waiting", "storage")
    assert job.waiting_message == "no server that it may run on is tied to data"
    tie(storage, node, tied=True)
    world.settle()
    assert state(job)[0] == "running"


def test_what_runs_on_a_server_when_it_is_untied_goes_on(world: World) -> None:
    storage, node = made(world), world.node("gpu01", root=ROOT)
    job = world.submit(extras=NEEDS)
    world.settle()
    tie(storage, node, tied=False)
    world.settle()
    assert state(job)[0] == "running"


def waits(job: Job) -> tuple[str, str]:
    return Job.objects.values_list("waiting_code", "waiting_message").get(pk=job.pk)


def test_no_job_begins_on_a_server_without_the_storage_of_its_folder(world: World) -> None:
    storage = made(world, "jobs", jobs=True)
    one, two = world.node("gpu01", gpus=1, root=ROOT), world.node("gpu02", gpus=1, root=ROOT)
    tie(storage, one, tied=False)
    first, second = world.submit(), world.submit(name="second")
    world.settle()
    assert list(TaskAttempt.objects.values_list("task__job", "node__name")) == [(first.pk, two.name)]
    assert (state(second)[0], one.desired().orders) == ("waiting", ())
    tie(storage, two, tied=False)
    world.cycle()
    assert waits(second) == ("storage", "no server that it may run on is tied to jobs")


def test_a_storage_that_goes_away_after_the_placing_is_in_the_spec_all_the_same(world: World) -> None:
    storage, node = made(world, "jobs", jobs=True), world.node("gpu01", root=ROOT)
    world.submit()
    world.cycle()
    TaskAttempt.objects.update(spec_hash="", spec_sealed="")
    tie(storage, node, tied=False)
    (order,) = node.desired().orders
    assert [mount.storage for mount in node.spec(order).mounts] == ["jobs"]


def test_a_storage_that_is_gone_is_left_out_of_no_spec(world: World) -> None:
    storage, node = made(world), world.node("gpu01", root=ROOT)
    job = world.submit(extras=NEEDS)
    world.cycle()
    TaskAttempt.objects.update(spec_hash="", spec_sealed="")
    Storage.objects.filter(pk=storage.pk).delete()
    assert node.desired().orders == ()
    world.cycle()
    assert "There is no storage data any more" in job.attempts.get().end_message


def test_a_job_waits_where_no_server_offers_its_storage_now_with_what_is_wrong_there(world: World) -> None:
    made(world)
    node = world.node("gpu01", root="/mnt/berth")
    job = world.submit(extras=NEEDS)
    node.inventory = replace(node.inventory, storage_faults={ROOT: f"nothing is mounted at {ROOT}"})
    node.report()
    world.settle()
    fault = f"no server that it may run on offers data now: gpu01 (nothing is mounted at {ROOT})"
    assert (waits(job), job.attempts.count()) == (("storage", fault), 0)
    node.inventory = replace(node.inventory, storages=(), storage_faults={})
    node.report()
    late = world.submit(name="late", extras=NEEDS)
    world.settle()
    assert waits(late)[1].endswith("gpu01 (its agent tells no such folder)")
    mounts(node, "/mnt/berth/data")
    world.settle()
    assert (state(job)[0], node.spec(node.desired().orders[0]).mounts[0].source) == ("running", f"{ROOT}/alice")


def test_a_job_waits_where_the_servers_of_its_storage_are_silent_and_others_are_not(world: World) -> None:
    made(world)
    one, _ = world.node("gpu01", root=ROOT), world.node("gpu02")
    Node.objects.filter(name=one.name).update(health="lost")
    job = world.submit(extras=NEEDS)
    world.cycle()
    assert waits(job) == ("storage", "the servers that have data do not answer: gpu01")
    Node.objects.update(health="lost")
    world.cycle()
    assert waits(job)[0] == "bad_nodes", "it is not its storage that is in the way"


def test_a_job_waits_where_each_of_its_storages_is_on_another_server(world: World) -> None:
    made(world)
    made(world, "other", root="/mnt/berth/other")
    world.node("gpu01", root=ROOT)
    world.node("gpu02", root="/mnt/berth/other")
    storages = [{"name": "data", "mountPath": "/data"}, {"name": "other", "mountPath": "/other"}]
    job = world.submit(extras=NEEDS | {"storages": storages})
    world.cycle()
    assert waits(job) == ("storage", "no server that it may run on has all of its storages: data, other")


def test_a_start_that_fails_since_the_storage_is_not_there_costs_no_retry_and_waits_for_the_storage(
    world: World,
) -> None:
    made(world)
    node = world.node("gpu01", root=ROOT)
    job = world.submit(extras=NEEDS)
    world.cycle()
    (order,) = node.desired().orders
    now = timezone.now()
    node.end(order, Exit(cause=Cause.STORAGE_MISSING, message=f"storage data is not mounted at {ROOT}"))
    node.report()
    node.obey()
    world.cycle(now=now)
    assert (state(job), job.attempts.get().end_reason) == (("waiting", "storage"), "start_failed")
    assert f"storage data is not mounted at {ROOT}" in waits(job)[1]
    page = Browser(world.user).get(f"/jobs/{job.pk}").text
    assert "node was at fault" not in page.lower()
    job.refresh_from_db()
    assert job.retries_counted == 0
    Job.objects.update(not_before=None)
    world.settle()
    assert state(job)[0] == "running"


@pytest.mark.parametrize("jobs", [False, True], ids=["mounted", "of job folders"])
def test_who_submits_is_told_which_storage_no_server_offers_and_which_servers_say_why(world: World, jobs: bool) -> None:
    """Before the submission, and among the events of a job that was submitted all the same."""
    made(world, jobs=jobs)
    file = job_file() if jobs else job_file(extras=NEEDS)
    for name in ("gpu01", "gpu02"):
        node = world.node(name, root="/mnt/berth")
        node.inventory = replace(node.inventory, storage_faults={ROOT: f"nothing is mounted at {ROOT}"})
        assert node.report()
    why = f"no server that it may run on offers data now: gpu01, gpu02 (nothing is mounted at {ROOT})"
    told = f"It waits until this has changed: {why}."
    assert told in checked(world, file)["hints"]
    (chinese,) = [hint for hint in checked(world, file, "zh-CN")["hints"] if "gpu02" in hint]
    assert not ASCII_WORDS.search(chinese.replace(ROOT, "")), chinese
    job = job_submit(user=world.user, text=file, now=timezone.now())
    assert told in [one.message for one in job.events.filter(code="hint")]
    world.settle()
    assert waits(job) == ("storage", why)
    node.inventory = replace(node.inventory, storage_faults={})
    node.report()
    assert told not in checked(world, file)["hints"]


def test_who_names_servers_is_told_of_these_alone(world: World) -> None:
    storage = made(world)
    one, _ = world.node("gpu01", root=ROOT), world.node("gpu02", root=ROOT)
    tie(storage, one, tied=False)
    file = job_file(extras=NEEDS | {"berth": {"nodes": {"only": ["gpu01"]}}})
    waiting = "It waits until this has changed: no server that it may run on is tied to data."
    assert waiting in checked(world, file)["hints"]
    assert checked(world, job_file(extras=NEEDS))["hints"] == [
        "No shared storage is set up for job folders: a job that is requeued starts from nothing."
    ]


def checked(world: World, file: str, language: str = "en") -> Any:
    return Api(world.user).call("POST", "validate", file, kind="application/yaml", Accept_Language=language).json()


def test_a_server_that_tells_a_folder_inside_an_accepted_one_or_around_it_offers_what_was_accepted(
    world: World,
) -> None:
    node, admin = world.node("gpu01", root="/mnt/berth"), Api(person("root", ClusterRole.ADMIN))
    made(world)
    for root in ("/mnt/berth/data", "/mnt/berth", ROOT):
        mounts(node, root)
        assert (admin.get("storages/data")["nodes"], node.row.claims.get("storages", [])) == (["gpu01"], []), root
    Node.objects.update(accepted={**(node.row.accepted or {}), "storages": [ROOT]})
    mounts(node, "/mnt")
    assert admin.get("storages/data")["nodes"] == ["gpu01"]
    made(world, "other", root="/mnt/other")
    assert admin.get("storages/other")["nodes"] == [], "nobody has accepted that"


@pytest.mark.parametrize(("root", "lies"), [("/mnt/a", True), ("/mnt/a/b", True), ("/mnt/ab", False), ("/mnt", False)])
def test_a_folder_lies_in_itself_and_in_those_above_and_in_none_whose_name_begins_alike(root: str, lies: bool) -> None:
    assert below(root, ["/srv", "/mnt/a"]) is lies


# ------------------------------------------------------------ how a tie comes


def test_who_makes_a_storage_with_an_export_ties_it_to_all_accepted_servers_or_to_those_that_are_named(
    world: World,
) -> None:
    one, two = world.node("gpu01"), world.node("gpu02")
    world.nodes["gpu03"] = pending = ScriptedNode("gpu03", accept=False)
    pending.report()
    made(world, **EXPORTED)
    assert AuditEntry.objects.latest("id").after["servers"] == ["gpu01", "gpu02"]  # type: ignore[index]
    assert mounts(one, ROOT).storages == [ROOT]
    named = {"root": "/mnt/berth/x", "export": "filer:/x", "kind": "nfs"}
    made(world, "named", servers=["gpu02"], **named)
    assert mounts(one, ROOT, "/mnt/berth/x").storages == [ROOT]
    assert mounts(two, "/mnt/berth/x").storages == ["/mnt/berth/x"]
    with pytest.raises(Invalid) as refused:
        made(world, "no", root="/mnt/no", servers=["gpu03", "gpu01"])
    assert [(fault.path, fault.message) for fault in refused.value.faults] == [
        ("servers", "no accepted server is named gpu03")
    ]
    assert not Storage.objects.filter(name="no").exists()


def test_servers_that_are_named_for_a_folder_are_tied_and_no_others(world: World) -> None:
    one, two = world.node("gpu01", root="/mnt/berth"), world.node("gpu02", root="/mnt/berth")
    made(world, "jobs", jobs=True, servers=["gpu02"])
    assert answering(world.submit()) == [two.name]
    assert list(one.row.ties.values()) == [{"untied": True}]


def test_an_export_that_a_storage_is_given_later_counts_where_nobody_has_untied_it(world: World) -> None:
    storage = made(world)
    one, two = world.node("gpu01"), world.node("gpu02", root=ROOT)
    tie(storage, two, tied=False)
    changes = {"kind": "nfs", "export": "filer:/data"}
    storage_change(storage=storage, changes=changes, now=timezone.now(), actor="root")
    assert mounts(one, ROOT).storages == [ROOT]
    assert AuditEntry.objects.latest("id").after["servers"] == ["gpu01"]  # type: ignore[index]


def test_who_accepts_a_server_ties_it_to_what_servers_mount_and_is_told_so(world: World, root: User) -> None:
    made(world, **EXPORTED)
    world.nodes["gpu01"] = node = ScriptedNode("gpu01", accept=False)
    node.report()
    page = Browser(root).get("/cluster/nodes/gpu01").text
    assert "It will mount these storages and answer for files in them: data." in page
    node.accept()
    assert mounts(node, ROOT).storages == [ROOT]


def test_tied_and_untied_by_page_and_api_with_what_it_was_in_the_audit_log(world: World, root: User) -> None:
    storage, node, api = made(world), world.node("gpu01", root=ROOT), Api(root)
    (server,) = api.get("storages/data/servers")
    untried = {"proof": "", "proof_by": "", "proof_why": ""}
    assert server == {"node": "gpu01", "health": "healthy", "tied": True, "offered": True, "fault": "", **untried}
    browser = Browser(root)
    page = browser.send("/storages/data/servers/gpu01", "/storages/data", tied="no")
    assert "gpu01 is untied from data." in page.text
    answer = api.call("PUT", "storages/data/servers/gpu01", {"tied": True})
    assert (answer.status_code, answer.json()["tied"]) == (200, True)
    tie(storage, node, tied=True)
    entries = AuditEntry.objects.filter(action="storage.tie", target="data").order_by("id")
    assert [(entry.before, entry.after) for entry in entries] == [
        ({"node": "gpu01", "tied": True}, {"node": "gpu01", "tied": False}),
        ({"node": "gpu01", "tied": False}, {"node": "gpu01", "tied": True}),
    ]


def test_of_a_server_that_waits_nothing_is_tied(world: World, root: User) -> None:
    made(world)
    node = ScriptedNode("gpu01", accept=False, root=ROOT)
    node.report()
    api = Api(root)
    assert api.call("PUT", "storages/data/servers/gpu01", {"tied": True}).status_code == 409
    assert api.get("storages/data/servers") == []


# ------------------------------------------------------------ proofs


def due(world: World) -> list[tuple[str, str]]:
    return [(one.node.name, one.writer.name) for one in proofs_due(now=timezone.now(), limit=10)]


def test_who_was_accepted_first_writes_and_not_who_joined_first(world: World) -> None:
    made(world)
    early = world.nodes["early"] = ScriptedNode("early", accept=False, root=ROOT)
    early.report()
    world.node("gpu01", root=ROOT)
    early.accept()
    assert due(world) == [("early", "gpu01")]


def test_a_storage_at_another_place_was_seen_by_nobody(world: World) -> None:
    storage = made(world)
    world.node("gpu01", root="/mnt")
    second = world.node("gpu02", root="/mnt")
    tie_proven(storage=storage, node=second.row, by="gpu01", result=SEEN, why="", now=timezone.now())
    assert due(world) == []
    before = Storage.objects.get()
    storage_change(storage=storage, changes={"root": "/mnt/other"}, now=timezone.now(), actor="root")
    assert due(world) == [("gpu02", "gpu01")]
    tie_proven(storage=before, node=second.row, by="gpu01", result=SEEN, why="", now=timezone.now())
    assert due(world) == [("gpu02", "gpu01")], "what was under way meanwhile was about the old place"
