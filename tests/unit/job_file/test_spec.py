"""What a valid file means: defaults, names resolved, lines in their order."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from portal.job_file.durations import seconds
from portal.job_file.model import BerthExtras, Completion, Elastic, JobSpec, StorageMount
from portal.job_file.validate import parse
from tests.support.cluster.job_files import Change, job_file, spec

TRAIN = "taskRoles/train"
PLUGINS = "extras/com.microsoft.pai.runtimeplugin"
EVERYTHING: list[Change] = [
    ("version", 1.0),
    ("parameters", {"lr": 1e-05}),
    ("secrets", {"token": "hunter2"}),
    ("jobRetryCount", 3),
    ("prerequisites/0/auth", {"username": "u", "password": "<% $secrets.token %>"}),
    ("prerequisites/-", {"name": "set", "type": "data", "uri": ["a", "b"], "plugin": "p", "require": ["image"]}),
    (f"{TRAIN}/data", "set"),
    (f"{TRAIN}/prerequisites", ["set"]),
    (f"{TRAIN}/extraContainerOptions", {"shmMB": 64, "infiniband": True}),
    (f"{TRAIN}/resourcePerInstance/ports", {"web": 2}),
    ("extras/hivedScheduler/jobPriorityClass", "prod"),
    (
        "extras/hivedScheduler/taskRoles/train",
        {"skuType": "A100", "affinityGroupName": "g", "lazyPreemptionEnable": True},
    ),
    ("extras/storages", [{"name": "home"}, {"name": "sets", "mountPath": "/sets/"}]),
    (PLUGINS, [{"plugin": "ssh", "parameters": {"jobssh": True}, "taskroles": ["train"]}]),
    ("extras/jobStatusChangeNotification", {"failed": True, "running": False}),
    ("extras/tags", ["a", "b", "a"]),
    (
        "extras/berth",
        {
            "timeLimit": "2h",
            "gracePeriod": 90,
            "minRunTime": "15m",
            "borrow": "auto",
            "preemptible": True,
            "checkpointFile": "last.pt",
            "steps": r"step (\d+)",
            "after": ["alice/prepare#3"],
            "code": "sha256:" + "0" * 64,
            "nodes": {"only": ["gpu01", "gpu02"], "not": ["gpu02"]},
            "notify": ["succeeded"],
            "park": "never",
            "profile": "user",
        },
    ),
]


def test_what_a_file_leaves_out_takes_its_default() -> None:
    job = spec()
    role = job.role("train")
    assert (job.vc, job.priority_class, job.priority, job.gang) == ("default", "test", 10, True)
    assert (job.job_retry_count, job.storages, job.plugins, job.notify) == (0, None, (), ())
    assert job.berth == BerthExtras()
    assert (role.completion, role.task_retry_count) == (Completion(min_failed=1, min_succeeded=2), 0)
    assert (role.resources.shm_mb, role.resources.infiniband, role.resources.ports) == (None, False, {})
    assert (job.task_count, job.gpu_count) == (2, 2)


@pytest.mark.parametrize(
    ("elastic", "least", "most"),
    [({"max": 8}, 2, 8), ({"min": 1}, 1, 2), ({"min": 1, "max": 3}, 1, 3)],
)
def test_the_instances_of_an_elastic_role_are_its_least_or_most_where_it_gives_none(
    elastic: dict[str, Any], least: int, most: int
) -> None:
    job = spec(("extras/berth/elastic", {"train": elastic}))
    role = job.role("train")
    assert (role.least, role.instances, job.least_gpus, job.gpu_count) == (least, most, least, most)
    assert role.elastic == Elastic(least)
    assert role.completion.min_succeeded == least
    assert JobSpec.from_json(job.to_json()) == job


@pytest.mark.parametrize(("word", "number"), [("crit", 120), ("prod", 100), ("test", 10), ("oppo", -1)])
def test_a_priority_class_is_a_number_too(word: str, number: int) -> None:
    assert spec(("extras/hivedScheduler/jobPriorityClass", word)).priority == number


def test_every_word_of_a_file_arrives() -> None:
    job = spec(*EVERYTHING)
    role = job.role("train")
    assert (job.version, job.job_retry_count, job.priority, job.lazy_preemption) == ("1", 3, 100, True)
    assert (role.sku, role.affinity_group, role.pinned_cell) == ("A100", "g", None)
    assert (role.resources.shm_mb, role.resources.infiniband, role.resources.ports) == (64, True, {"web": 2})
    assert (role.data, role.prerequisites) == ("set", ("set",))
    assert job.storages == (StorageMount("home", "/mnt/home"), StorageMount("sets", "/sets"))
    assert [(plugin.plugin, plugin.task_roles) for plugin in job.plugins] == [("ssh", ("train",))]
    assert (job.notify, job.tags) == (("succeeded", "failed"), ("a", "b"))
    assert job.berth == BerthExtras(
        time_limit_s=7_200,
        grace_period_s=90,
        min_run_time_s=900,
        borrow="auto",
        preemptible=True,
        checkpoint_file="last.pt",
        steps=r"step (\d+)",
        after=("alice/prepare#3",),
        code="sha256:" + "0" * 64,
        nodes_only=("gpu01", "gpu02"),
        nodes_not=("gpu02",),
        park="never",
        profile="user",
    )
    (data,) = job.prerequisites
    assert (data.type, data.name, data.uri, data.plugin, data.require) == ("data", "set", ("a", "b"), "p", ("image",))


def test_a_spec_survives_json_and_leaves_its_secrets_behind() -> None:
    job = spec(*EVERYTHING)
    text = json.dumps(job.to_json())
    assert "hunter2" not in text + repr(job)
    assert JobSpec.from_json(json.loads(text), secrets=job.secrets) == job


def test_a_spec_of_another_release_is_still_read() -> None:
    data = spec().to_json()
    del data["tags"]
    assert JobSpec.from_json({**data, "unheard_of": 1}) == spec()


@pytest.mark.parametrize("damage", [{"priority_class": "urgent"}, {"roles": [{"name": "x"}]}])
def test_a_damaged_spec_is_not_read(damage: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        JobSpec.from_json({**spec().to_json(), **damage})


@pytest.mark.parametrize(
    ("given", "failed", "succeeded"),
    [
        ({"minFailedInstances": 0, "minSucceededInstances": 0}, 1, 2),
        ({"minFailedInstances": None, "minSucceededInstances": None}, 1, 2),
        ({"minFailedInstances": -1, "minSucceededInstances": -1}, -1, -1),
        ({"minFailedInstances": 5, "minSucceededInstances": 5}, 5, 5),
    ],
)
def test_of_a_completion_nothing_and_0_mean_the_default_and_more_than_there_are_stands(
    given: dict[str, Any], failed: int, succeeded: int
) -> None:
    completion = spec((f"{TRAIN}/completion", given)).role("train").completion
    assert completion == Completion(min_failed=failed, min_succeeded=succeeded)


def test_roles_keep_the_order_of_the_file() -> None:
    role = {"dockerImage": "image", "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0}, "commands": ["x"]}
    job = spec(("taskRoles/zeta", role), ("taskRoles/alpha", role))
    assert [role.name for role in job.roles] == ["train", "zeta", "alpha"]
    with pytest.raises(KeyError):
        job.role("beta")


def test_lines_of_prerequisites_plugins_and_deployment_stand_around_the_commands() -> None:
    job = spec(
        (f"{TRAIN}/commands", [" run <% $parameters.n %> ", "more"]),
        ("parameters", {"n": 3}),
        (f"{TRAIN}/prerequisites", ["sets"]),
        ("prerequisites/-", {"name": "tools", "type": "script", "callbacks": [_callback("taskStarts", "install")]}),
        (
            "prerequisites/-",
            {
                "name": "sets",
                "type": "data",
                "require": ["tools"],
                "failurePolicy": "ignore",
                "callbacks": [_callback("taskStarts", "fetch"), _callback("taskSucceeds", "tidy")],
            },
        ),
        (
            PLUGINS,
            [
                {"plugin": "cmd", "parameters": {"preCommands": ["before"], "postCommands": ["after"]}},
                {"plugin": "cmd", "parameters": {"preCommands": ["elsewhere"]}, "taskroles": []},
            ],
        ),
        ("deployments", [{"name": "d", "taskRoles": {"train": {"preCommands": ["pre"], "postCommands": ["post"]}}}]),
        ("defaults/deployment", "d"),
    )
    script = "install { fetch }||true before pre run 3 more post after { tidy }||true"
    assert job.role("train").script.replace("} || true", "}||true").split() == script.split()
    assert "run <% $parameters.n %>" in job.role("train").commands


def test_prerequisites_that_require_each_other_end_nevertheless() -> None:
    first = {"name": "a", "type": "script", "require": ["b"], "callbacks": [_callback("taskStarts", "do a")]}
    second = {"name": "b", "type": "script", "require": ["a"], "callbacks": [_callback("taskStarts", "do b")]}
    job = spec(("prerequisites/-", first), ("prerequisites/-", second), (f"{TRAIN}/prerequisites", ["a"]))
    assert sorted(job.role("train").script.splitlines()) == ["do a", "do b", "true"]


def test_the_forerunner_of_storages_still_names_them() -> None:
    plugin = {"plugin": "teamwise_storage", "parameters": {"storageConfigNames": ["nfs", "nfs"]}}
    assert spec((PLUGINS, [plugin])).storages == (StorageMount("nfs", "/mnt/nfs"),)
    assert spec((PLUGINS, [plugin]), ("extras/storages", [])).storages == ()


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", "yes"),
        ("1.0.0", "1.0.0"),
        ("2021-01-01", "2021-01-01"),
        ("12:30:00", "12:30:00"),
        ("1_000", "1_000"),
        ("!!str 1.0", "1.0"),
        ("! 1", "1"),
        ("!!float 1", 1.0),
        ("!!int 0x1F", 31),
        ("0o17", 15),
        ("1e3", 1_000.0),
        ("TRUE", True),
        ("~", None),
        ("", None),
        ("'1'", "1"),
        (".5", 0.5),
        ("-", None),
        ("9" * 41, "9" * 41),
    ],
)
def test_a_word_means_what_the_core_schema_of_yaml_1_2_says(written: str, value: Any) -> None:
    text = job_file().removesuffix("}") + f', "parameters": {{"x": {written if written != "-" else ""}}}}}'
    found = parse(text).parameters["x"]
    assert (found, type(found)) == (value, type(value))


def test_json_with_tabs_and_surrogate_pairs_is_read_as_json() -> None:
    text = job_file(("description", "\N{ROCKET} / \\ud83d")).replace(": ", ":\t").replace("/", "\\/")
    assert "\\ud83d\\ude80" in text
    assert parse(text).description == "\N{ROCKET} / \\ud83d"


def test_anchors_aliases_and_merge_keys_work() -> None:
    text = """
protocolVersion: 2
name: shared
type: job
prerequisites: [{name: i, type: dockerimage, uri: x}]
taskRoles:
  a: &role
    instances: 1
    dockerImage: i
    resourcePerInstance: &size {cpu: 1, memoryMB: 64, gpu: 0}
    commands: [one]
  b:
    <<: *role
    commands: [two]
    resourcePerInstance:
      <<: [{gpu: 2}, *size]
"""
    job = parse(text)
    assert [(role.script, role.resources.cpu, role.resources.gpu) for role in job.roles] == [
        ("one", 1, 0),
        ("two", 1, 2),
    ]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [(90, 90), (90.0, 90), ("90s", 90), ("15m", 900), ("2h", 7_200), ("7d", 604_800)]
    + [("", None), ("2 h", None), ("h", None), ("0s", None), (True, None), (None, None), ("1h30m", None)],
)
def test_a_duration_is_seconds_or_a_number_with_a_unit(given: Any, wanted: int | None) -> None:
    assert seconds(given) == wanted


def _callback(event: str, command: str) -> dict[str, Any]:
    return {"event": event, "commands": [command]}
