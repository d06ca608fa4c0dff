"""The job after validation: frozen, typed, JSON round-trippable.

Units: CPU in cores, memory in MB (2**20 bytes), durations in whole seconds. Names follow OpenPAI's job protocol v2;
what it has no word for is in `BerthExtras`. Secret values are never part of `to_json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self

from portal.common.priorities import DEFAULT_PRIORITY_CLASS, PRIORITY_CLASSES, PriorityClass
from portal.job_file import codec, raw

DEFAULT_VIRTUAL_CLUSTER = "default"

Borrow = Literal["never", "auto"]
Park = Literal["idle", "never"]
Profile = Literal["user", "root"]
FailurePolicy = Literal["ignore", "fail"]
CallbackEvent = Literal["taskStarts", "taskSucceeds"]

JOB_EVENTS = ("running", "succeeded", "stopped", "failed", "retried", "preempted", "warned")
"""Job changes that a user can be notified of; the first five are OpenPAI's."""

FANCY_RETRY_OFF = -2
RETRY_ALWAYS = -1
BOUND_OFF = -1
"""A completion bound that never triggers."""


@dataclass(frozen=True, slots=True)
class RegistryAuth:
    """A registry login. `password` is a template such as `<% $secrets.registry.password %>`, never the value:
    `render_auth` fills it in where it is used."""

    username: str
    password: str
    registry_uri: str


@dataclass(frozen=True, slots=True)
class Image:
    """A container image: `uri` as `docker pull` takes it; `name` is the prerequisite's name in the file."""

    name: str
    uri: str
    auth: RegistryAuth | None = None


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources of one task. `ports` maps a label to a number of ports; `shm_mb` None is the node's default."""

    cpu: int
    memory_mb: int
    gpu: int
    ports: Mapping[str, int] = field(default_factory=dict)
    shm_mb: int | None = None
    infiniband: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """When a task role ends the attempt (FrameworkController's completion policy).

    `min_failed` failed tasks fail it, `min_succeeded` succeeded ones let it succeed; -1 switches a bound off.
    """

    min_failed: int
    min_succeeded: int


@dataclass(frozen=True, slots=True)
class Callback:
    """Commands that a prerequisite brings to each task that names it."""

    event: CallbackEvent
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prerequisite:
    """A data, script or output prerequisite; images are in `TaskRoleSpec.image`."""

    name: str
    type: Literal["data", "script", "output"]
    uri: tuple[str, ...] = ()
    plugin: str | None = None
    require: tuple[str, ...] = ()
    callbacks: tuple[Callback, ...] = ()
    failure_policy: FailurePolicy = "fail"


@dataclass(frozen=True, slots=True)
class Elastic:
    """`extras.berth.elastic` of a role: its first `least` tasks are part of the gang, the others are extra tasks, which
    come and go while the job runs."""

    least: int


@dataclass(frozen=True, slots=True)
class TaskRoleSpec:
    """A group of identical tasks; of an elastic role, `instances` is how many there are at most.

    `commands` are the lines in running order, deployment and plug-in lines included, as written; `script` is the same
    rendered and joined, with only `<% $secrets... %>` left for the container.
    """

    name: str
    instances: int
    image: Image
    resources: Resources
    completion: Completion
    commands: tuple[str, ...]
    script: str
    task_retry_count: int = 0
    sku: str | None = None
    pinned_cell: str | None = None
    affinity_group: str | None = None
    prerequisites: tuple[str, ...] = ()
    data: str | None = None
    output: str | None = None
    script_source: str | None = None
    elastic: Elastic | None = None

    @property
    def least(self) -> int:
        """How many of its tasks the job does not run without."""
        return self.elastic.least if self.elastic else self.instances


@dataclass(frozen=True, slots=True)
class StorageMount:
    """A storage by name and its path in the task."""

    name: str
    mount_path: str


@dataclass(frozen=True, slots=True)
class RuntimePlugin:
    """An entry of `extras."com.microsoft.pai.runtimeplugin"`; `task_roles` None means every role."""

    plugin: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    failure_policy: FailurePolicy = "fail"
    task_roles: tuple[str, ...] | None = None

    def is_of(self, role: str) -> bool:
        """Whether it applies to this role."""
        return self.task_roles is None or role in self.task_roles

    @property
    def asks_ssh(self) -> bool:
        """Whether people may log in to the tasks: implied by own keys as well as by `jobssh`."""
        kind = raw.mapping(self.parameters, "userssh").get("type", "none")
        return self.asks_job_ssh or (self.plugin == "ssh" and kind != "none")

    @property
    def asks_job_ssh(self) -> bool:
        """Whether the tasks may log in to each other; off by default, as in OpenPAI."""
        return self.plugin == "ssh" and self.parameters.get("jobssh") is True

    @property
    def barrier_s(self) -> int:
        """How long a task waits for SSH to the others before its own commands; 0: not at all."""
        if self.parameters.get("sshbarrier") is not True:
            return 0
        return 60 * int(self.parameters.get("sshbarrierTimeout") or 30)


@dataclass(frozen=True, slots=True)
class BerthExtras:
    """`extras.berth`. None means unset: the virtual cluster's or the cluster's default applies."""

    time_limit_s: int | None = None
    grace_period_s: int | None = None
    min_run_time_s: int | None = None
    borrow: Borrow | None = None
    preemptible: bool | None = None
    checkpoint_file: str | None = None
    steps: str | None = None
    after: tuple[str, ...] = ()
    code: str | None = None
    nodes_only: tuple[str, ...] = ()
    nodes_not: tuple[str, ...] = ()
    park: Park | None = None
    profile: Profile | None = None


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One valid job file.

    `job_retry_count` is FrameworkController's `maxRetryCount`: n >= 0 retries at most n failures that the job accounts
    for, `RETRY_ALWAYS` any of them, `FANCY_RETRY_OFF` whatever the end was, success included. `storages` None means the
    file names none; an empty tuple asks for the user's default storages (OpenPAI). `notify` is a subset of
    `JOB_EVENTS`. `secrets` holds the file's secrets, and stays out of `repr` and of `to_json`.
    """

    name: str
    roles: tuple[TaskRoleSpec, ...]
    vc: str = DEFAULT_VIRTUAL_CLUSTER
    priority_class: PriorityClass = DEFAULT_PRIORITY_CLASS
    priority: int = PRIORITY_CLASSES[DEFAULT_PRIORITY_CLASS]
    gang: bool = True
    lazy_preemption: bool = False
    job_retry_count: int = 0
    description: str = ""
    contributor: str = ""
    version: str = ""
    submit_from: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    prerequisites: tuple[Prerequisite, ...] = ()
    storages: tuple[StorageMount, ...] | None = None
    plugins: tuple[RuntimePlugin, ...] = ()
    notify: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    berth: BerthExtras = field(default_factory=BerthExtras)
    secrets: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def elastic(self) -> bool:
        """Whether it has extra tasks."""
        return any(role.elastic for role in self.roles)

    @property
    def task_count(self) -> int:
        """Number of tasks in the job, extra tasks included."""
        return sum(role.instances for role in self.roles)

    @property
    def gpu_count(self) -> int:
        """Number of GPUs of all tasks in the job, extra tasks included."""
        return sum(role.instances * role.resources.gpu for role in self.roles)

    @property
    def least_gpus(self) -> int:
        """Number of GPUs that the job does not run without."""
        return sum(role.least * role.resources.gpu for role in self.roles)

    def asks_ssh(self, role: str) -> bool:
        """Whether people may log in to this role's tasks by SSH."""
        return any(plugin.asks_ssh for plugin in self.plugins if plugin.is_of(role))

    def job_ssh(self, role: str) -> RuntimePlugin | None:
        """The plug-in by which tasks of this role and the others reach each other by SSH."""
        return next((one for one in self.plugins if one.asks_job_ssh and one.is_of(role)), None)

    def role(self, name: str) -> TaskRoleSpec:
        """The task role of that name; raises `KeyError` if there is none."""
        for role in self.roles:
            if role.name == name:
                return role
        raise KeyError(name)

    def to_json(self) -> dict[str, Any]:
        """The spec as JSON values, without the secrets."""
        data = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "secrets"}
        return {key: codec.encode(value) for key, value in data.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, secrets: Mapping[str, Any] | None = None) -> Self:
        """The inverse of `to_json`; raises `msgspec.ValidationError` on data of another shape."""
        return codec.decode(cls, {**data, "secrets": dict(secrets or {})})
