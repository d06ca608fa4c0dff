"""Every problem of a job file is told at once, each at its place and with its number."""

from __future__ import annotations

from typing import Any

import pytest

from portal.job_file.model import JobSpec
from portal.job_file.problems import SpecInvalid
from portal.job_file.validate import parse
from tests.support.cluster.job_files import GONE, Change, job_file, problems

TRAIN = "taskRoles/train"
SECOND_IMAGE = {"name": "image", "type": "dockerimage", "uri": "other"}
PLUGIN = "com.microsoft.pai.runtimeplugin"

WRONG: list[tuple[Change, str, str]] = [
    (("protocolVersion", 1), "protocolVersion", "must be 2, not 1"),
    (("name", "no blanks"), "name", 'letters, digits, "_" or "-", not the text "no blanks"'),
    (("name", "trailing\n"), "name", "letters, digits"),
    (("name", "x" * 256), "name", "1 to 255"),
    (("name", 7), "name", "must be 1 to 255 letters"),
    (("type", "task"), "type", 'must be job, not the text "task"'),
    (("taskRole", {}), "taskRole", "did you mean taskRoles?"),
    (("taskRoles", {}), "taskRoles", "must have at least 1, not 0"),
    (("taskRoles", []), "taskRoles", "must be a mapping, not a list"),
    (("taskRoles/1st", {}), "taskRoles.1st", "must not begin with a digit"),
    (
        ("taskRoles/Tr_ain", {}),
        "taskRoles.Tr_ain",
        "train and Tr_ain are the same role in OpenPAI's variables (PAI_HOST_IP_train_0)",
    ),
    (("jobRetryCount", -3), "jobRetryCount", "must be at least -2, not -3"),
    (("jobRetryCount", "2"), "jobRetryCount", 'must be a whole number, not the text "2"'),
    (("secrets", "******"), "secrets", "give the values again"),
    (("parameters", [1]), "parameters", "must be a mapping, not a list"),
    (("version", True), "version", "must be a text or a number, not true"),
    ((f"{TRAIN}/instances", 0), "taskRoles.train.instances", "must be at least 1, not 0"),
    ((f"{TRAIN}/instances", 10_001), "taskRoles.train.instances", "must be at most 10,000, not 10,001"),
    ((f"{TRAIN}/instances", 1.5), "taskRoles.train.instances", "must be a whole number, not 1.5"),
    ((f"{TRAIN}/image", "x"), "taskRoles.train.image", "unknown key"),
    ((f"{TRAIN}/taskRetryCount", -5), "taskRoles.train.taskRetryCount", "at least -2"),
    ((f"{TRAIN}/dockerImage", GONE), "taskRoles.train.dockerImage", "is required"),
    ((f"{TRAIN}/dockerImage", "imag"), "taskRoles.train.dockerImage", "named imag; there is: image"),
    ((f"{TRAIN}/data", "image"), "taskRoles.train.data", "no data prerequisite is named image; there is none"),
    ((f"{TRAIN}/prerequisites", ["image", "x"]), "taskRoles.train.prerequisites[1]", "is named x"),
    ((f"{TRAIN}/commands", []), "taskRoles.train.commands", "must have at least 1, not 0"),
    ((f"{TRAIN}/commands", [" ", ""]), "taskRoles.train.commands", "every command is blank"),
    ((f"{TRAIN}/commands", ["a", 1]), "taskRoles.train.commands[1]", "must be a text, not 1"),
    ((f"{TRAIN}/completion", {"minFailedInstances": -2}), "taskRoles.train.completion.minFailedInstances", "least -1"),
    (
        (f"{TRAIN}/resourcePerInstance/gpu", -1),
        "taskRoles.train.resourcePerInstance.gpu",
        "must be at least 0, not -1",
    ),
    (
        (f"{TRAIN}/resourcePerInstance/gpu", "1"),
        "taskRoles.train.resourcePerInstance.gpu",
        'must be a whole number, not the text "1"',
    ),
    ((f"{TRAIN}/resourcePerInstance/cpu", 0), "taskRoles.train.resourcePerInstance.cpu", "at least 1"),
    ((f"{TRAIN}/resourcePerInstance/memoryMB", 5), "taskRoles.train.resourcePerInstance.memoryMB", "least 6"),
    (
        (f"{TRAIN}/resourcePerInstance/ports", {"tensor-board": 1}),
        "taskRoles.train.resourcePerInstance.ports.tensor-board",
        'letters, digits and "_"',
    ),
    (
        (f"{TRAIN}/resourcePerInstance/ports", {"web": 0}),
        "taskRoles.train.resourcePerInstance.ports.web",
        "must be at least 1, not 0",
    ),
    (
        (f"{TRAIN}/extraContainerOptions", {"shmMB": -1}),
        "taskRoles.train.extraContainerOptions.shmMB",
        "must be at least 0",
    ),
    (("prerequisites/-", SECOND_IMAGE), "prerequisites[1].name", "a second dockerimage prerequisite"),
    (("prerequisites/-", {"type": "data"}), "prerequisites[1].name", "is required"),
    (("prerequisites/-", {"name": "d", "type": "disk"}), "prerequisites[1].type", "must be one of dockerimage"),
    (("prerequisites/-", {"name": "d", "type": "data", "uri": "x"}), "prerequisites[1].uri", "must be a list"),
    (("prerequisites/-", {"name": "d", "type": "script", "uri": ["x"]}), "prerequisites[1].uri", "be a text"),
    (("prerequisites/-", {"name": "d", "type": "dockerimage"}), "prerequisites[1].uri", "is required"),
    (("prerequisites/0/uri", "two words"), "prerequisites[0].uri", "without blanks"),
    (("prerequisites/0/uri", "UPPER/case:V1"), "prerequisites[0].uri", "lower case only; did you mean upper/case:V1?"),
    (("prerequisites/0/uri", "../x"), "prerequisites[0].uri", "../x names no image"),
    (("prerequisites/0/uri", "torch:2:5"), "prerequisites[0].uri", "torch:2:5 names no image"),
    (
        ("extras/hivedScheduler/taskRoles/train/affinityGroupName", "g" * 65),
        "extras.hivedScheduler.taskRoles.train.affinityGroupName",
        "must be at most 64 characters long, not 65",
    ),
    (("prerequisites/0/uri", "a" * 256), "prerequisites[0].uri", "must be at most 255 characters, not 256"),
    (("prerequisites/0/auth", {"password": "******"}), "prerequisites[0].auth.password", "give the password again"),
    (("prerequisites/0/auth", {"user": "x"}), "prerequisites[0].auth.user", "did you mean username?"),
    (
        ("prerequisites/-", {"name": "d", "type": "output", "require": ["x"]}),
        "prerequisites[1].require[0]",
        "no prerequisite is named x; there are: d, image",
    ),
    (
        ("prerequisites/-", {"name": "d", "type": "data", "callbacks": [{"event": "x", "commands": []}]}),
        "prerequisites[1].callbacks[0].event",
        "must be one of taskStarts, taskSucceeds",
    ),
    ((f"{TRAIN}/completion/minSucceedInstances", 1), "taskRoles.train.completion.minSucceedInstances", "did you mean"),
    ((f"{TRAIN}/resourcePerInstance/gpus", 1), "taskRoles.train.resourcePerInstance.gpus", "did you mean gpu?"),
    (("deployments", [{"taskRoles": {}}]), "deployments[0].name", "is required"),
    (("deployments", [{"name": "a"}, {"name": "a"}]), "deployments[1].name", "a second deployment is named a"),
    (
        ("deployments", [{"name": "a", "taskRoles": {"tain": {}}}]),
        "deployments[0].taskRoles.tain",
        "no task role is named tain; there is: train",
    ),
    (
        ("deployments", [{"name": "a", "taskRoles": {"train": {"preCommands": []}}}]),
        "deployments[0].taskRoles.train.preCommands",
        "must have at least 1",
    ),
    (("defaults/deployment", "prod"), "defaults.deployment", "no deployment is named prod"),
    (("defaults/virtualCluster", ""), "defaults.virtualCluster", "must not be empty"),
    (("extras", []), "extras", "must be a mapping"),
    (("extras/gangAllocation", "yes"), "extras.gangAllocation", 'must be true or false, not the text "yes"'),
    (
        (f"extras/{PLUGIN}", [{"plugin": "git", "parameters": {"repo_uri": "x", "options": ["-b 'x"]}}]),
        f'extras."{PLUGIN}"[0].parameters.options[0]',
        "has a quote that is not closed, or ends with a backslash",
    ),
    (("extras/tags", ["a,b"]), "extras.tags[0]", "without a comma"),
    (
        ("extras/hivedScheduler/jobPriorityClass", "high"),
        "extras.hivedScheduler.jobPriorityClass",
        'must be one of crit, prod, test, oppo, not the text "high"',
    ),
    (
        ("extras/hivedScheduler/taskRoles/eval", {"skuType": "A100"}),
        "extras.hivedScheduler.taskRoles.eval",
        "no task role is named eval",
    ),
    (
        ("extras/hivedScheduler/taskRoles/train", {"skuType": "A100", "pinnedCellId": "c1"}),
        "extras.hivedScheduler.taskRoles.train.pinnedCellId",
        "exclude each other",
    ),
    (("extras/storages", [{"mountPath": "/mnt/a"}]), "extras.storages[0].name", "is required"),
    (("extras/storages", [{"name": "a", "mountPath": "x"}]), "extras.storages[0].mountPath", "absolute path"),
    (("extras/storages", [{"name": "a"}, {"name": "a"}]), "extras.storages[1].name", "mounted twice"),
    (
        ("extras/storages", [{"name": "a", "mountPath": "/d"}, {"name": "b", "mountPath": "/d/"}]),
        "extras.storages[1].mountPath",
        "already the place of another",
    ),
    (("extras/storages", [{"name": "a", "mountPath": "//"}]), "extras.storages[0].mountPath", "cannot be"),
    (("extras/storages", [{"name": "a", "mountPath": "/etc/"}]), "extras.storages[0].mountPath", "cannot be"),
    (("extras/storages", [{"name": "a", "mountPath": "/a/../proc"}]), "extras.storages[0].mountPath", "cannot"),
    (("extras/storages", [{"name": "a", "mountPath": "/run/berth"}]), "extras.storages[0].mountPath", "cannot be"),
    (("extras/storages", [{"name": "../x"}]), "extras.storages[0].mountPath", "cannot be a mount point"),
    ((f"extras/{PLUGIN}", [{"plugin": "vnc"}]), f'extras."{PLUGIN}"[0].plugin', "must be one of ssh, cmd"),
    ((f"extras/{PLUGIN}", [{"plugin": "git"}]), f'extras."{PLUGIN}"[0].parameters', "is required"),
    (
        (f"extras/{PLUGIN}", [{"plugin": "git", "parameters": {}}]),
        f'extras."{PLUGIN}"[0].parameters.repo_uri',
        "is required",
    ),
    (
        (f"extras/{PLUGIN}", [{"plugin": "cmd", "taskroles": ["eval"]}]),
        f'extras."{PLUGIN}"[0].taskroles[0]',
        "no task role is named eval",
    ),
    (("extras/berth/timelimit", "2h"), "extras.berth.timelimit", "did you mean timeLimit?"),
    (("extras/berth/timeLimit", "2 hours"), "extras.berth.timeLimit", '"90s", "15m", "2h" or "7d"'),
    (("extras/berth/timeLimit", 0), "extras.berth.timeLimit", "whole seconds from 1"),
    (("extras/berth/timeLimit", "999999d"), "extras.berth.timeLimit", "at most 315,360,000 seconds (10 years)"),
    (
        ("extras/berth", {"timeLimit": "1m", "gracePeriod": "90s"}),
        "extras.berth.gracePeriod",
        "must be at most the timeLimit, 60 s, not 90 s",
    ),
    (("extras/berth/borrow", "always"), "extras.berth.borrow", "must be one of never, auto"),
    (("extras/berth", {"preemptible": False, "borrow": "auto"}), "extras.berth.preemptible", "quota only"),
    (("extras/berth/checkpointFile", "/x"), "extras.berth.checkpointFile", "relative to $BERTH_JOB_DIR"),
    (("extras/berth/checkpointFile", "a/../../x"), "extras.berth.checkpointFile", "stay inside"),
    (("extras/berth/elastic", {"trial": {"max": 4}}), "extras.berth.elastic.trial", "no task role is named trial"),
    (("extras/berth/elastic", {"train": {"min": 0}}), "extras.berth.elastic.train.min", "at least 1, not 0"),
    (
        ("extras/berth/elastic", {"train": {"min": 3, "max": 4}}),
        "extras.berth.elastic.train.min",
        "2, not 3",
    ),
    (
        ("extras/berth/elastic", {"train": {"min": 1, "max": 1}}),
        "extras.berth.elastic.train.max",
        "2, not 1",
    ),
    (("extras/berth/elastic", {"train": {"max": 2}}), "extras.berth.elastic.train.max", "more than min, 2, not 2"),
    (("extras/berth/elastic", {"train": {"max": 1001}}), "extras.berth.elastic.train.max", "at most 1,000, not 1,001"),
    (("extras/berth/elastic", {"train": {}}), "extras.berth.elastic.train", "at least 1"),
    (
        ("extras/berth", {"elastic": {"train": {"max": 4}}, "preemptible": False}),
        "extras.berth.preemptible",
        "does not go with elastic",
    ),
    (("extras/berth/steps", "step ("), "extras.berth.steps", "RE2, which says: missing )"),
    (("extras/berth/steps", "step"), "extras.berth.steps", "the step's number in its first group"),
    (("extras/berth/steps", r"(\d*)"), "extras.berth.steps", "an empty line does not match"),
    (("extras/berth/steps", r"(\w+)\1"), "extras.berth.steps", "RE2, which says"),
    (("extras/berth/steps", "(x)" * 67), "extras.berth.steps", "200"),
    (("extras/berth/after", ["a b"]), "extras.berth.after[0]", '"alice/prepare#3"'),
    (("extras/berth/code", "x"), "extras.berth.code", "sha256:"),
    (("extras/berth/nodes", {"only": []}), "extras.berth.nodes.only", "must have at least 1"),
    (("extras/berth/nodes", {"only": ["a"], "not": ["a"]}), "extras.berth.nodes.only", "under `not` as well"),
    (("extras/berth/notify", ["started"]), "extras.berth.notify[0]", "must be one of running, succeeded"),
    (("extras/berth/park", "keep"), "extras.berth.park", "must be one of idle, never"),
    (("extras/berth/park", "idle"), "extras.berth.park", "only a job of one task with one GPU can be parked"),
    (("extras/berth/profile", "admin"), "extras.berth.profile", "must be one of user, root"),
]


@pytest.mark.parametrize(("change", "path", "words"), WRONG)
def test_a_wrong_value_is_told_at_its_path_with_what_is_wanted(change: Change, path: str, words: str) -> None:
    found = problems(job_file(change))
    assert path in [problem.path for problem in found]
    assert any(problem.path == path and words in problem.message for problem in found), found


def test_all_problems_come_at_once_in_the_order_of_the_file() -> None:
    text = "\n".join(
        [
            "protocolVersion: 3",
            "name: two words",
            "type: job",
            "prerequisites:",
            "  - {name: image, type: dockerimage, uri: x}",
            "taskRoles:",
            "  train:",
            "    instances: 2",
            "    dockerImage: imag",
            "    completion: {minSucceededInstances: -3}",
            "    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: many}",
            "    commands: [run]",
            "extras:",
            "  berth: {timeLimit: soon}",
        ]
    )
    assert [(problem.path, problem.line) for problem in problems(text)] == [
        ("protocolVersion", 1),
        ("name", 2),
        ("taskRoles.train.dockerImage", 9),
        ("taskRoles.train.completion.minSucceededInstances", 10),
        ("taskRoles.train.resourcePerInstance.gpu", 11),
        ("extras.berth.timeLimit", 14),
    ]


def test_an_affinity_group_asks_for_one_kind_of_cell() -> None:
    second = {"dockerImage": "image", "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 1}, "commands": ["x"]}
    entry = {"affinityGroupName": "together", "skuType": "A100"}
    hived = {"train": entry, "eval": {**entry, "skuType": "H100"}}
    text = job_file(("taskRoles/eval", second), ("extras/hivedScheduler/taskRoles", hived))
    assert [problem.path for problem in problems(text)] == ["extras.hivedScheduler.taskRoles.eval.affinityGroupName"]
    hived["eval"] = entry
    text = job_file(("taskRoles/eval", second), ("extras/hivedScheduler/taskRoles", hived))
    assert problems(text) == ()


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        (("extras/gangAllocation", False), "extras.berth.elastic", "start together"),
        (("taskRoles/train/resourcePerInstance/gpu", 0), "extras.berth.elastic.train", "no GPUs"),
    ],
)
def test_only_a_gang_with_gpus_grows(change: Change, path: str, words: str) -> None:
    (found,) = problems(job_file(("extras/berth/elastic", {"train": {"max": 4}}), change))
    assert found.path == path
    assert words in found.message


def test_an_opportunistic_job_cannot_refuse_preemption() -> None:
    text = job_file(("extras/hivedScheduler/jobPriorityClass", "oppo"), ("extras/berth/preemptible", False))
    assert [problem.path for problem in problems(text)] == ["extras.berth.preemptible"]


def test_the_roles_together_have_a_largest_number_of_tasks() -> None:
    role = {"instances": 6_000, "dockerImage": "image", "commands": ["x"]}
    role["resourcePerInstance"] = {"cpu": 1, "memoryMB": 64, "gpu": 0}
    found = problems(job_file(("taskRoles/a", role), ("taskRoles/b", role)))
    assert [problem.message for problem in found] == [
        "the roles have 12,002 tasks together; at most 10,000 are accepted"
    ]


def test_a_flood_of_problems_is_cut_with_a_word_about_the_rest() -> None:
    found = problems(job_file(*((f"key{number}", 1) for number in range(500))))
    assert len(found) == 101
    assert found[-1].message.endswith("more problems")


def test_a_refusal_reads_as_a_sentence() -> None:
    with pytest.raises(SpecInvalid, match=r"name \(line 1\): must be 1 to 255 letters"):
        parse(job_file(("name", "a b")))


ACCEPTED: list[Change] = [
    ("protocolVersion", "2"),
    ("version", 1.5),
    ("jobRetryCount", -2),
    (f"{TRAIN}/completion", {"minFailedInstances": -1, "minSucceededInstances": None}),
    (f"{TRAIN}/completion", {"minFailedInstances": 3, "minSucceededInstances": 3}),
    (f"{TRAIN}/completion", {"minFailedInstances": 0, "minSucceededInstances": 0}),
    (f"{TRAIN}/resourcePerInstance/cpu", 4.0),
    (f"{TRAIN}/resourcePerInstance/gpu", 0),
    ("prerequisites/-", {"name": "image", "type": "data", "uri": ["x"], "anything": {"more": 1}}),
    ("extras/hivedScheduler", {"jobPriorityClass": None, "taskRoles": {"train": {"skuType": None}}}),
    ("extras/anything", {"a": [1, 2]}),
    ("extras/storages", []),
    *(
        ("prerequisites/0/uri", uri)
        for uri in (
            "b",
            "team/x__y/a.b---c:Tag_1.2-3",
            "localhost/x",
            "gpu01:5000/x",
            "[::1]:5000/x:1",
            "Registry.Lab.example:5000/a/b@sha256:" + "0" * 64,
            "x:1@sha256:" + "f" * 64,
            "sha256:" + "0" * 64,
        )
    ),
]


@pytest.mark.parametrize("change", ACCEPTED)
def test_what_openpai_accepts_is_accepted(change: Change) -> None:
    accepted: Any = parse(job_file(change))
    assert isinstance(accepted, JobSpec)
