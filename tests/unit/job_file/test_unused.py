"""Keys of a job file that nothing reads are told with their path, and refused where they ask for rights."""

from __future__ import annotations

from typing import Any

import pytest

from portal.job_file.unused import unused_keys
from tests.support.cluster.job_files import Change, job_file, problems

PLUGIN = "com.microsoft.pai.runtimeplugin"
OPTIONS = "taskRoles/train/extraContainerOptions"
PREREQUISITE = {"name": "image", "type": "dockerimage", "uri": "busybox:latest"}

UNUSED: list[tuple[Change, str]] = [
    ((OPTIONS, {"shmMb": 64}), "taskRoles.train.extraContainerOptions.shmMb has no effect here: nothing reads "
     "this key; did you mean shmMB?"),
    ((OPTIONS, {"cgroup": 1, "privileged": False}), "taskRoles.train.extraContainerOptions.cgroup has no effect"),
    ((OPTIONS, {"privileged": False}), "taskRoles.train.extraContainerOptions.privileged has no effect"),
    ((OPTIONS, {"capAdd": []}), "taskRoles.train.extraContainerOptions.capAdd has no effect"),
    ((OPTIONS, {"network": "bridge"}), "taskRoles.train.extraContainerOptions.network has no effect"),
    (("extras", {"hivedSchedular": {}}), "extras.hivedSchedular has no effect here: nothing reads "
     "this key; did you mean hivedScheduler?"),
    (("extras", {"hivedScheduler": {"preemption": 1}}), "extras.hivedScheduler.preemption has no effect"),
    (("extras", {"hivedScheduler": {"gangReleaseEnable": True}}), "extras.hivedScheduler.gangReleaseEnable has no"),
    (("extras", {"hivedScheduler": {"taskRoles": {"train": {"skuNumber": 1}}}}),
     "extras.hivedScheduler.taskRoles.train.skuNumber has no effect"),
    (("extras", {"hivedScheduler": {"taskRoles": {"train": {"skuNum": 1}}}}),
     "extras.hivedScheduler.taskRoles.train.skuNum has no effect"),
    (("extras", {"storages": [{"name": "data", "readOnly": True}]}), "extras.storages[0].readOnly has no effect"),
    (("extras", {"jobStatusChangeNotification": {"preempted": True}}),
     "extras.jobStatusChangeNotification.preempted has no effect"),
    (("extras", {PLUGIN: [{"plugin": "cmd", "params": {}}]}),
     'extras."com.microsoft.pai.runtimeplugin"[0].params has no effect'),
    (("extras", {PLUGIN: [{"plugin": "cmd", "parameters": {"preCommand": ["x"]}}]}),
     'extras."com.microsoft.pai.runtimeplugin"[0].parameters.preCommand has no effect here: nothing reads '
     "this key; did you mean preCommands?"),
    (("extras", {PLUGIN: [{"plugin": "git", "parameters": {"repo_uri": "https://x", "branch": "main"}}]}),
     'extras."com.microsoft.pai.runtimeplugin"[0].parameters.branch has no effect'),
    (("extras", {PLUGIN: [{"plugin": "ssh", "parameters": {"userssh": {"keys": "x"}}}]}),
     'extras."com.microsoft.pai.runtimeplugin"[0].parameters.userssh.keys has no effect'),
    (("prerequisites", [{**PREREQUISITE, "pull": "always"}]), "prerequisites[0].pull has no effect"),
    (("prerequisites", [{**PREREQUISITE, "plugin": "x"}]), "prerequisites[0].plugin has no effect"),
    (("prerequisites", [PREREQUISITE, {"name": "d", "type": "data", "uri": ["x"], "size": 1}]),
     "prerequisites[1].size has no effect"),
    (("prerequisites", [PREREQUISITE, {"name": "s", "type": "script", "uri": "x", "callbacks": [
        {"event": "taskStarts", "commands": ["true"], "when": "x"}]}]), "prerequisites[1].callbacks[0].when has no"),
    (("deployments", [{"name": "d", "nodes": 3}]), "deployments[0].nodes has no effect"),
    (("defaults", {"virtualcluster": "x"}), "defaults.virtualcluster has no effect here: nothing reads "
     "this key; did you mean virtualCluster?"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "told"), UNUSED)
def test_a_key_that_nothing_reads_is_told(change: Change, told: str) -> None:
    text = job_file(change)
    assert [problem for problem in problems(text) if problem.code == "right"] == []
    (hint, *_) = unused_keys(text)
    assert hint.replace(" (line 1)", "").startswith(told)


def test_the_line_is_told() -> None:
    assert "(line 2)" in unused_keys("extras:\n  tag: x\n")[0]


READ: list[Change] = [
    (OPTIONS, {"shmMB": 64, "infiniband": True}),
    ("parameters", {"privileged": True, "volumes": ["/:/host"], "lr": {"devices": 3}}),
    ("secrets", {"hostPID": "x"}),
    ("extras", {"submitFrom": "page", "tags": ["a"], "hivedScheduler": {"jobPriorityClass": "prod"}}),
    ("extras", {PLUGIN: [{"plugin": "ssh", "parameters": {"jobssh": True, "userssh": {"type": "none", "value": ""}}}]}),
    ("extras", {"berth": {"timeLimit": "2h"}}),
]


@pytest.mark.parametrize("change", READ)
def test_what_is_read_is_not_told(change: Change) -> None:
    text = job_file(change)
    assert problems(text) == ()
    assert unused_keys(text) == []


def test_of_many_keys_some_are_told_and_the_number_of_others() -> None:
    told = unused_keys(job_file(("extras", {f"x{number}": 1 for number in range(120)})))
    assert (len(told), told[-1]) == (21, "100 more keys have no effect here: nothing reads them.")


ASKED: list[tuple[str, Any]] = [
    ("privileged", True),
    ("Privileged", "true"),
    ("PRIVILEGED", 1),
    ("--privileged", "yes"),
    ("capAdd", ["SYS_ADMIN"]),
    ("cap_add", ["ALL"]),
    ("cap-add", "ALL"),
    ("capabilities", {"add": ["SYS_ADMIN"]}),
    ("devices", ["/dev/sda"]),
    ("device", "/dev/kmsg"),
    ("securityContext", {"runAsUser": 0}),
    ("security_opt", ["seccomp=unconfined"]),
    ("seccompProfile", {"type": "Unconfined"}),
    ("apparmor", "unconfined"),
    ("container.apparmor.security.beta.kubernetes.io/main", "unconfined"),
    ("hostPID", True),
    ("hostIPC", True),
    ("hostNetwork", True),
    ("pid", "host"),
    ("PidMode", "HOST"),
    ("ipc", "host"),
    ("network_mode", "container:abc"),
    ("volumes", ["/:/host"]),
    ("volumeMounts", [{"mountPath": "/x"}]),
    ("mounts", [{"source": "/"}]),
    ("binds", ["/var/run/docker.sock:/var/run/docker.sock"]),
    ("hostPath", {"path": "/"}),
    ("runAsUser", 1),
    ("dockerArgs", "-it --privileged"),
    ("args", ["--cap-add=ALL"]),
]


@pytest.mark.parametrize(("key", "value"), ASKED, ids=lambda one: str(one)[:20])
def test_rights_are_refused_with_their_path(key: str, value: Any) -> None:
    places: dict[str, Any] = {
        "taskRoles.train.extraContainerOptions.": (OPTIONS, {key: value}),
        "taskRoles.train.extraContainerOptions.docker.more[0].": (OPTIONS, {"docker": {"more": [{key: value}]}}),
        "extras.": ("extras", {key: value}),
        "extras.hivedScheduler.taskRoles.train.": (
            "extras", {"hivedScheduler": {"taskRoles": {"train": {key: value}}}}
        ),
        'extras."com.microsoft.pai.runtimeplugin"[0].': ("extras", {PLUGIN: [{"plugin": "cmd", key: value}]}),
        'extras."com.microsoft.pai.runtimeplugin"[0].parameters.': (
            "extras", {PLUGIN: [{"plugin": "image_checker", "parameters": {key: value}}]}
        ),
        "prerequisites[0].": ("prerequisites", [{**PREREQUISITE, key: value}]),
        "deployments[0].": ("deployments", [{"name": "d", key: value}]),
        "defaults.": ("defaults", {key: value}),
    }  # fmt: skip
    for path, change in places.items():
        found = [one for one in problems(job_file(change)) if one.code == "right"]
        assert len(found) == 1, path
        assert found[0].path.startswith(path)
        assert found[0].message == "asks for rights that jobs do not have here; remove it"
