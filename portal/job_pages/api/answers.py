"""What the API says of jobs. Times are RFC 3339; memory is in MB (2**20 bytes), CPU in thousandths of a core."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from nodes.protocol.states import ContainerState
from portal.common.serializers import Answer, FaultAnswer
from portal.common.shapes import Shape
from portal.jobs.models import Standing
from portal.jobs.states import AttemptState, EndReason, JobState, TaskState
from portal.node_orders.selectors import ssh_way
from portal.parking.models import ParkState
from portal.queue.api.answers import StartAnswer
from scheduling import Code

WAITING_CODES = ", ".join([*Code, "backoff"])
"""Why a job may wait: the scheduler's words, and a retry that comes later."""

STATES_OF_CONTAINERS = [str(state) for state in ContainerState]


@extend_schema_field({"type": "object", "additionalProperties": True})
class FreeObject(serializers.JSONField):
    """A JSON object whose keys depend on what it tells."""


@extend_schema_field({"type": "object", "additionalProperties": {"type": "integer"}})
class Counts(serializers.JSONField):
    """Numbers by name."""


class JobAnswer(Answer):
    """A job, as in lists."""

    id = serializers.IntegerField(source="pk")
    label = serializers.CharField(help_text="user/name#run")  # type: ignore[assignment]  # a field, which DRF takes out of the class
    name = serializers.CharField()
    run = serializers.IntegerField(help_text="counts the user's jobs of this name")
    user = serializers.CharField(source="user.username")
    vc = serializers.CharField(source="vc.name", help_text="its virtual cluster")
    state = serializers.ChoiceField(JobState.choices)
    priority = serializers.IntegerField()
    gang = serializers.BooleanField(help_text="its tasks start together or not at all")
    task_count = serializers.IntegerField()
    gpu_count = serializers.IntegerField()
    submitted_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True, help_text="when it ran for the first time")
    running_since = serializers.DateTimeField(
        allow_null=True, help_text="when its present attempt began to run; null: none runs"
    )
    ran_s = serializers.SerializerMethodField(
        help_text="seconds that its attempts ran that have ended; what it waited between them is not in it"
    )
    ended_at = serializers.DateTimeField(allow_null=True)
    end_reason = serializers.ChoiceField(EndReason.choices, allow_blank=True)
    end_message = serializers.CharField(allow_blank=True, help_text="the cause in words")
    exit_code = serializers.IntegerField(allow_null=True)
    retries = serializers.IntegerField(
        help_text="attempts after the first, those after a preemption or with a lost node too: the retries "
        "that the job file allows are used up by failures alone"
    )
    tags = serializers.SerializerMethodField(help_text="words that people gave it, oldest first")
    waiting_code = serializers.SerializerMethodField(help_text="why it waits, for programs; empty: it does not wait")
    waiting_message = serializers.SerializerMethodField(help_text="why it waits, in words")

    def get_ran_s(self, job: Any) -> float:
        return job.ran.total_seconds() if job.ran else 0.0

    def get_tags(self, job: Any) -> list[str]:
        return [tag.name for tag in job.tags.all()]

    def get_waiting_code(self, job: Any) -> str:
        return str(job.waiting_code) if job.state == JobState.WAITING else ""

    def get_waiting_message(self, job: Any) -> str:
        return str(job.waiting_message) if job.state == JobState.WAITING else ""


class ScoreAnswer(Shape):
    """How good past estimates were."""

    count = serializers.IntegerField(help_text="estimates whose job has started since, the newest 2,000")
    hits = serializers.IntegerField(help_text="of these, jobs that started by their p90")
    off_s = serializers.IntegerField(help_text="half of them started within so many seconds of their p50")


class MovedAnswer(Shape):
    """Where a job waits now. Whoever moved it out of a virtual cluster may not see it there."""

    id = serializers.IntegerField(source="pk")
    label = serializers.CharField(help_text="user/name#run")  # type: ignore[assignment]  # a field, which DRF takes out of the class
    vc = serializers.CharField(source="vc.name")


class WaitingAnswer(Shape):
    """Why a job waits."""

    code = serializers.CharField(
        allow_blank=True, help_text=f"for programs: {WAITING_CODES}; empty: the scheduler has not looked yet"
    )
    paused = serializers.BooleanField(help_text="held back by a person until it is resumed")
    placed_by = serializers.ChoiceField(
        ["lead", "owner"], allow_blank=True, help_text="who moved it in the queue; empty: it stands by its submission"
    )
    message = serializers.CharField(allow_blank=True, help_text="in words")
    numbers = FreeObject(help_text="the numbers behind it")
    place = serializers.IntegerField(
        allow_null=True,
        help_text="from 1, in its virtual cluster among jobs that want the same SKU; null: in no order (yet)",
    )
    start = StartAnswer(allow_null=True, help_text="null: no estimate yet")
    score = ScoreAnswer(allow_null=True, help_text="of such estimates; null: too few to tell")
    no_start = serializers.CharField(
        allow_blank=True, help_text="why there is no estimate; empty: there is one, or the reason itself says when"
    )
    since = serializers.DateTimeField(allow_null=True, help_text="when the scheduler last wrote this")
    not_before = serializers.DateTimeField(allow_null=True, help_text="a retry waits until then")


class ParkingAnswer(Shape):
    """A job that is off its GPU, or on its way from it or back to it."""

    state = serializers.ChoiceField(
        ParkState.choices, help_text="`wanted`: whoever has its GPU on loan must leave first; `held`: it has it again"
    )
    since = serializers.DateTimeField(source="changed_at")
    node = serializers.CharField(source="task_attempt.node.name")
    parked_mb = serializers.IntegerField(help_text="MB of its GPU's memory that are in the server's")
    cause = serializers.CharField(help_text="who parked it, or why")
    fault = serializers.CharField(allow_blank=True, help_text="what stood in the way the last time")
    lent_to = serializers.CharField(allow_blank=True, help_text="who has its GPU now; empty: nobody")


class RoleAnswer(Shape):
    """A task role; amounts are those of one task."""

    name = serializers.CharField(source="role.name")
    instances = serializers.IntegerField(source="role.instances", help_text="of an elastic role the most it may have")
    least = serializers.IntegerField(
        source="role.least", allow_null=True,
        help_text="of an elastic role: so many are its gang, the others extra tasks; null: it is not elastic",
    )  # fmt: skip
    gpus = serializers.IntegerField(source="role.gpus")
    cpu_milli = serializers.IntegerField(source="role.cpu_milli")
    memory_mb = serializers.IntegerField(source="role.memory_mb")
    sku = serializers.CharField(source="role.sku.name", allow_null=True, default=None)
    tasks = Counts(help_text="how many tasks are in which state")


class AttemptAnswer(Answer):
    """One run of a job."""

    number = serializers.IntegerField(help_text="from 1")
    state = serializers.ChoiceField(AttemptState.choices)
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    end_reason = serializers.ChoiceField(EndReason.choices, allow_blank=True)
    end_message = serializers.CharField(allow_blank=True)
    exit_code = serializers.IntegerField(allow_null=True)
    digests = FreeObject(help_text="image as named -> the digest that all its tasks run")


class CodeAnswer(Answer):
    """A folder of code."""

    id = serializers.CharField(source="name", help_text="what a job file names under extras.berth.code")
    size = serializers.IntegerField(help_text="bytes of the archive")
    unpacked = serializers.IntegerField(help_text="bytes of the files in it")
    entries = serializers.IntegerField(help_text="files, folders and links in it")
    created_at = serializers.DateTimeField()
    used_at = serializers.DateTimeField(help_text="last uploaded or named by a new job")


class FolderAnswer(Shape):
    """What becomes of a job's folder."""

    kept_until = serializers.DateTimeField(
        allow_null=True, help_text="when it is deleted; null: the job is not over, it is deleted, or Berth deletes none"
    )
    deleted_at = serializers.DateTimeField(allow_null=True, help_text="null: it is there, or there never was one")
    fault = serializers.CharField(allow_blank=True, help_text="why it is still there though its time is over")


class JobDetailAnswer(JobAnswer):
    """A job from near."""

    whole = True

    waiting = WaitingAnswer(allow_null=True)
    parking = ParkingAnswer(allow_null=True, help_text="null: it was never parked in this attempt")
    roles = RoleAnswer(many=True)
    attempt = AttemptAnswer(allow_null=True, help_text="the newest")
    code = CodeAnswer(allow_null=True, help_text="the folder of code that comes with it")
    folder = FolderAnswer(help_text="`$BERTH_JOB_DIR`, and how long it is kept")


class GpuHeldAnswer(Shape):
    """A GPU that a task attempt holds or held."""

    index = serializers.IntegerField(source="leaf.index")
    uuid = serializers.CharField(source="leaf.uuid")
    standing = serializers.ChoiceField(Standing.choices)


class SshAnswer(Shape):
    """How a running task is reached by SSH."""

    state = serializers.ChoiceField(
        ["asked", "open", "none"], help_text="asked: its server is being started; none: there is none, see `message`"
    )
    host = serializers.CharField(allow_blank=True)
    port = serializers.IntegerField(allow_null=True)
    user = serializers.CharField(allow_blank=True, help_text="whom to log in as")
    host_key = serializers.CharField(allow_blank=True, help_text="as in known_hosts, fresh for each run of a task")
    alias = serializers.CharField(help_text="a name for that key, as ports are used again: `HostKeyAlias`")
    command = serializers.CharField(allow_blank=True, help_text="what to type")
    message = serializers.CharField(allow_blank=True, help_text="why there is none")


class TaskAttemptAnswer(Shape):
    """One container, or process."""

    id = serializers.UUIDField()
    number = serializers.IntegerField(help_text="counts the runs of this task, from 1")
    attempt = serializers.IntegerField(source="job_attempt.number", help_text="of the job")
    node = serializers.CharField(source="node.name")
    state = serializers.ChoiceField(STATES_OF_CONTAINERS)
    gpus = GpuHeldAnswer(source="allocations.all", many=True)
    ports = FreeObject(help_text="label -> ports of the node")
    image_digest = serializers.CharField(source="digest", allow_blank=True)
    isolation = serializers.CharField(allow_blank=True)
    progress = FreeObject(help_text="of the image's pull, where known")
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    checkpoint_at = serializers.DateTimeField(allow_null=True, help_text="when it last saved, as its file tells")
    lost_at = serializers.DateTimeField(allow_null=True, help_text="given up, with its node or since it did not end")
    cause = serializers.CharField(allow_blank=True, help_text="of its end")
    exit_code = serializers.IntegerField(allow_null=True)
    exit_signal = serializers.IntegerField(allow_null=True)
    exit_message = serializers.CharField(allow_blank=True)
    stop_reason = serializers.CharField(allow_blank=True, help_text="why it was told to stop")
    stop_message = serializers.CharField(allow_blank=True)
    log_end = serializers.IntegerField(help_text="offset behind the last record known")
    log_complete = serializers.BooleanField()
    ssh = serializers.SerializerMethodField()

    @extend_schema_field(SshAnswer(allow_null=True))
    def get_ssh(self, run: Any) -> dict[str, Any] | None:
        """How it is reached by SSH; null: its job does not ask for that, or it does not run."""
        way = ssh_way(run)
        return SshAnswer(way).data if way is not None else None


class TaskAnswer(Answer):
    """A task, its newest attempts first."""

    role = serializers.CharField(source="role.name")
    index = serializers.IntegerField()
    extra = serializers.BooleanField(
        help_text="an extra task of an elastic role: it comes and goes, and its job runs while it waits"
    )
    state = serializers.ChoiceField(TaskState.choices)
    not_before = serializers.DateTimeField(allow_null=True, help_text="it waits until then to be tried again")
    attempts = TaskAttemptAnswer(source="shown", many=True)


class EventAnswer(Answer):
    """Something that happened."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    code = serializers.CharField(help_text="for programs")
    message = serializers.CharField()
    actor = serializers.CharField(allow_blank=True, help_text="user name; empty: Berth itself")
    data = FreeObject()  # type: ignore[assignment]  # a field, which DRF takes out of the class
    attempt = serializers.IntegerField(source="job_attempt.number", allow_null=True, default=None)
    task_attempt = serializers.UUIDField(source="task_attempt_id", allow_null=True)
    role = serializers.CharField(source="task_attempt.task.role.name", allow_null=True, default=None)
    index = serializers.IntegerField(source="task_attempt.task.index", allow_null=True, default=None)


class SummaryAnswer(Shape):
    """What a job file asks for."""

    name = serializers.CharField()
    vc = serializers.CharField()
    task_count = serializers.IntegerField()
    gpu_count = serializers.IntegerField()


class ValidationAnswer(Shape):
    """Whether a job file would be accepted."""

    valid = serializers.BooleanField()
    problems = FaultAnswer(many=True)
    hints = serializers.ListField(
        child=serializers.CharField(), help_text="what to know of a valid file though nothing is wrong with it"
    )
    summary = SummaryAnswer(allow_null=True, help_text="of a valid file")
