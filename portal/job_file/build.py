"""Builds the `JobSpec` of a valid file: defaults filled in, names resolved, commands rendered."""

from __future__ import annotations

import copy
from typing import Any, cast

from portal.common.priorities import DEFAULT_PRIORITY_CLASS, PRIORITY_CLASSES, PriorityClass
from portal.job_file import commands, durations, model, plugins, raw
from portal.job_file.raw import Raw
from portal.job_file.rules import mount_path
from portal.job_file.secrets import held_apart, storages_named
from portal.job_file.templates import number_text


def job_spec(job: Raw) -> model.JobSpec:
    """The spec of a file that has no problems."""
    job, secrets = held_apart(job)
    extras = raw.mapping(job, "extras")
    hived = raw.mapping(extras, "hivedScheduler")
    class_name = cast(PriorityClass, raw.priority_class(job) or DEFAULT_PRIORITY_CLASS)
    return model.JobSpec(
        name=job["name"],
        roles=tuple(_role(job, name, role) for name, role in raw.roles(job)),
        vc=raw.text(raw.mapping(job, "defaults").get("virtualCluster")) or model.DEFAULT_VIRTUAL_CLUSTER,
        priority_class=class_name,
        priority=PRIORITY_CLASSES[class_name],
        gang=raw.gang(job),
        lazy_preemption=_lazy(hived),
        job_retry_count=raw.whole(job.get("jobRetryCount")),
        description=job.get("description", ""),
        contributor=job.get("contributor", ""),
        version=_version(job.get("version")),
        submit_from=extras.get("submitFrom", ""),
        parameters=copy.deepcopy(raw.mapping(job, "parameters")),
        prerequisites=_prerequisites(job),
        storages=storages_named(_storages(job), secrets),
        plugins=_plugins(job),
        notify=_notify(extras),
        tags=tuple(dict.fromkeys(raw.texts(extras.get("tags")))),
        berth=_berth(raw.mapping(extras, "berth")),
        secrets=secrets,
    )


def _lazy(hived: Raw) -> bool:
    """OpenPAI reads the flag per role, its documentation shows it for the job: either counts."""
    entries = [hived, *map(raw.mapping, raw.mapping(hived, "taskRoles").values())]
    return any(entry.get("lazyPreemptionEnable") is True for entry in entries)


def _role(job: Raw, name: str, role: Raw) -> model.TaskRoleSpec:
    lines = commands.task_lines(job, name)
    hived = raw.mapping(job, "extras", "hivedScheduler", "taskRoles", name)
    least, most = raw.task_range(job, name, role)
    return model.TaskRoleSpec(
        name=name,
        instances=most,
        image=_image(raw.prerequisites(job, "dockerimage")[role["dockerImage"]]),
        resources=_resources(role),
        completion=_completion(raw.mapping(role, "completion"), least),
        commands=tuple(lines),
        script=commands.script(job, name, lines),
        task_retry_count=raw.whole(role.get("taskRetryCount")),
        sku=raw.text(hived.get("skuType")),
        pinned_cell=raw.text(hived.get("pinnedCellId")),
        affinity_group=raw.text(hived.get("affinityGroupName")),
        prerequisites=tuple(raw.texts(role.get("prerequisites"))),
        data=raw.text(role.get("data")),
        output=raw.text(role.get("output")),
        script_source=raw.text(role.get("script")),
        elastic=_elastic(raw.elastic(job, name), least),
    )


def _elastic(given: Raw, least: int) -> model.Elastic | None:
    return model.Elastic(least) if given else None


def _image(item: Raw) -> model.Image:
    auth = item.get("auth")
    login = None
    if auth is not None:
        login = model.RegistryAuth(auth.get("username", ""), auth.get("password", ""), auth.get("registryuri", ""))
    return model.Image(name=item["name"], uri=item["uri"], auth=login)


def _resources(role: Raw) -> model.Resources:
    given = role["resourcePerInstance"]
    options = raw.mapping(role, "extraContainerOptions")
    return model.Resources(
        cpu=raw.whole(given["cpu"]),
        memory_mb=raw.whole(given["memoryMB"]),
        gpu=raw.whole(given["gpu"]),
        ports={label: raw.whole(count) for label, count in raw.mapping(given, "ports").items()},
        shm_mb=raw.whole(options.get("shmMB")) or None,
        infiniband=options.get("infiniband") is True,
    )


def _completion(given: Raw, instances: int) -> model.Completion:
    return model.Completion(
        min_failed=raw.whole(given.get("minFailedInstances")) or 1,
        min_succeeded=raw.whole(given.get("minSucceededInstances")) or instances,
    )


def _prerequisites(job: Raw) -> tuple[model.Prerequisite, ...]:
    found = raw.items(job.get("prerequisites"))
    return tuple(_prerequisite(item) for item in found if item["type"] != "dockerimage")


def _prerequisite(item: Raw) -> model.Prerequisite:
    uri = item.get("uri")
    return model.Prerequisite(
        name=item["name"],
        type=item["type"],
        uri=(uri,) if isinstance(uri, str) else tuple(raw.texts(uri)),
        plugin=raw.text(item.get("plugin")),
        require=tuple(raw.texts(item.get("require"))),
        callbacks=tuple(
            model.Callback(event=callback["event"], commands=tuple(callback["commands"]))
            for callback in raw.items(item.get("callbacks"))
        ),
        failure_policy=item.get("failurePolicy", "fail"),
    )


def _storages(job: Raw) -> tuple[model.StorageMount, ...] | None:
    """`extras.storages`, or what its predecessor, the plug-in `teamwise_storage`, names."""
    extras = raw.mapping(job, "extras")
    if (given := extras.get("storages")) is not None:
        return tuple(model.StorageMount(item["name"], mount_path(item)) for item in given)
    found = [entry for _, entry in plugins.entries(job) if entry.plugin == "teamwise_storage"]
    names = dict.fromkeys(name for entry in found for name in raw.texts(entry.parameters.get("storageConfigNames")))
    return tuple(model.StorageMount(name, mount_path({"name": name})) for name in names) if found else None


def _plugins(job: Raw) -> tuple[model.RuntimePlugin, ...]:
    return tuple(
        model.RuntimePlugin(
            plugin=entry.plugin,
            parameters=copy.deepcopy(entry.parameters),
            failure_policy=entry.failure_policy or "fail",
            task_roles=None if entry.roles is None else tuple(entry.roles),
        )
        for _, entry in plugins.entries(job)
    )


def _notify(extras: Raw) -> tuple[str, ...]:
    wanted = set(raw.texts(raw.mapping(extras, "berth").get("notify")))
    switches = raw.mapping(extras, "jobStatusChangeNotification")
    wanted |= {event for event, wished in switches.items() if wished is True}
    return tuple(event for event in model.JOB_EVENTS if event in wanted)


def _berth(given: Raw) -> model.BerthExtras:
    nodes = raw.mapping(given, "nodes")
    return model.BerthExtras(
        time_limit_s=durations.seconds(given.get("timeLimit")),
        grace_period_s=durations.seconds(given.get("gracePeriod")),
        min_run_time_s=durations.seconds(given.get("minRunTime")),
        borrow=given.get("borrow"),
        preemptible=given.get("preemptible"),
        checkpoint_file=given.get("checkpointFile"),
        steps=given.get("steps"),
        after=tuple(raw.texts(given.get("after"))),
        code=given.get("code"),
        nodes_only=tuple(raw.texts(nodes.get("only"))),
        nodes_not=tuple(raw.texts(nodes.get("not"))),
        park=given.get("park"),
        profile=given.get("profile"),
    )


def _version(value: Any) -> str:
    if isinstance(value, float):
        return number_text(value)
    return "" if value is None else str(value)
