"""GPU activity of jobs, the idle policy, exceptions from it, and warnings."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from portal.common.columns import asked, asked_names, within
from portal.idle.limits import LONGEST, MOST_EXTENSIONS
from portal.jobs.models.attempt import JobAttempt, TaskAttempt
from portal.jobs.models.job import Job
from portal.jobs.models.lists import TAG_LENGTH
from portal.jobs.states import IdleAction, IdleEnd
from portal.teams.models import VirtualCluster


class GpuActivity(models.Model):
    """Activity of a running attempt's busiest GPU, as in ``portal.idle.activity``: how many minutes all its GPUs
    reported, the newest of them (minutes since 1970), and [percent, minute's number, end] of the steps."""

    job_attempt = models.OneToOneField(JobAttempt, primary_key=True, on_delete=models.CASCADE, related_name="activity")
    told = models.PositiveIntegerField()
    last = models.PositiveIntegerField()
    steps = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"{self.job_attempt_id}: {self.told} minutes"


class StepWatch(models.Model):
    """A running training that tells its steps: its newest one, when it last moved, and what its GPUs usually
    draw and do while it does. ``hangs``: it seems to do nothing although its GPUs are busy, or were when that began."""

    task_attempt = models.OneToOneField(
        TaskAttempt, primary_key=True, on_delete=models.CASCADE, related_name="step_watch"
    )
    step = models.BigIntegerField()
    step_ms = models.FloatField()
    log_end = models.BigIntegerField()
    moved_at = models.DateTimeField(help_text="when a step or output came last")
    minutes = models.PositiveIntegerField(help_text="in which it moved and told its power")
    usual_w = models.FloatField(help_text="watts of all its GPUs in these minutes, on average")
    watts = models.FloatField(help_text="in the newest minute, or in that in which it began to seem to hang")
    usual_sm = models.FloatField(null=True, help_text="percent of their multiprocessors at work, likewise")
    sm = models.FloatField(null=True, help_text="as ``watts``")
    hangs = models.BooleanField()

    class Meta:
        indexes = [models.Index(fields=["moved_at"], condition=Q(hangs=True), name="step_watch_hangs")]

    def __str__(self) -> str:
        return f"{self.task_attempt_id}: step {self.step}"


class IdlePolicy(models.Model):
    """The policy for jobs whose GPUs were below ``percent`` for ``minutes``: of one virtual cluster, or (``vc`` empty)
    of all without their own."""

    vc = models.OneToOneField(
        VirtualCluster, null=True, blank=True, on_delete=models.CASCADE, related_name="idle_policy"
    )
    action = asked(
        models.CharField(
            max_length=16, choices=IdleAction.choices,
            help_text="`off`: nothing; `warn` alone; or warn, then `stop`, make `opportunistic` or `park`",
        ),
        _("What happens to an idle job"),
    )  # fmt: skip
    percent = asked(
        models.PositiveSmallIntegerField(validators=within(1, 100), help_text="GPU use below this is idle"),
        _("Idle is GPU use below, in percent"),
        _("All GPUs of a job, by the minute."),
    )
    minutes = asked(
        models.PositiveIntegerField(validators=within(1, LONGEST), help_text="after so many the owner is warned"),
        _("Warn after, in minutes"),
        _("In a row; the first minutes of a task do not count."),
    )
    after_minutes = asked(
        models.PositiveIntegerField(
            validators=within(1, LONGEST), help_text="so many after the warning the action follows"
        ),
        _("Then act after, in minutes"),
        _("From the warning; counts where something follows it."),
    )
    extensions = asked(
        models.PositiveSmallIntegerField(
            validators=within(0, MOST_EXTENSIONS), help_text="how often it can be put off in an attempt"
        ),
        _("How often the owner may put it off"),
        _("In one attempt; 0: never."),
    )
    extension_minutes = asked(
        models.PositiveIntegerField(validators=within(1, LONGEST), help_text="each time by so many"),
        _("Each time by how many minutes"),
    )

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(models.Value(1), condition=Q(vc__isnull=True), name="one_idle_policy_of_cluster")
        ]

    def __str__(self) -> str:
        return f"{self.vc_id or 'all'}: {self.action}"


TERMS = asked_names(IdlePolicy)


class IdleExemption(models.Model):
    """Jobs that the policy leaves alone, until a time or for good: of a virtual cluster (empty: of all), of a user, one
    job, those whose name matches a shell pattern, those with a tag. Empty fields match everything; one of the last four
    is set."""

    vc = models.ForeignKey(
        VirtualCluster, null=True, blank=True, on_delete=models.CASCADE, related_name="idle_exemptions"
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    job = models.ForeignKey(Job, null=True, blank=True, on_delete=models.CASCADE, related_name="idle_exemptions")
    pattern = asked(
        models.CharField(
            max_length=255, blank=True, help_text="only jobs of this name, `*` for any text: `notebook-*`"
        ),
        _("Name of the job"), _("* for any text: notebook-*"),
    )  # fmt: skip
    tag = asked(
        models.CharField(
            max_length=TAG_LENGTH, blank=True, default="", db_default="", help_text="only jobs with this tag"
        ),
        _("Tag of the job"), _("Whoever may tag a job can except it by this."),
    )  # fmt: skip
    reason = asked(models.CharField(max_length=500), _("Reason"))
    until = models.DateTimeField(null=True, blank=True)
    author = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=False) | Q(job__isnull=False) | ~Q(pattern="") | ~Q(tag=""),
                name="idle_exemption_of_some",
            )
        ]

    def __str__(self) -> str:
        return f"{self.pk} in {self.vc_id or 'all'}"


class IdleWarning(models.Model):
    """A warning to a job's owner about idle GPUs, with its terms and outcome. While it is open, the same stretch is not
    warned of again.

    ``since``: when its GPUs became idle; ``due_at``: when ``action`` follows (empty: never); ``acted_at``: when it was
    done.
    """

    job_attempt = models.ForeignKey(JobAttempt, on_delete=models.CASCADE, related_name="idle_warnings")
    action = models.CharField(max_length=16, choices=IdleAction.choices)
    percent = models.PositiveSmallIntegerField()
    minutes = models.PositiveIntegerField()
    after_minutes = models.PositiveIntegerField()
    source = models.CharField(max_length=64, blank=True, help_text="whose policy: a virtual cluster's; empty: all's")
    gpus = models.PositiveIntegerField()
    since = models.DateTimeField()
    warned_at = models.DateTimeField()
    due_at = models.DateTimeField(null=True, blank=True)
    extensions = models.PositiveIntegerField(default=0)
    acted_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    end = models.CharField(max_length=10, choices=IdleEnd.choices, blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["job_attempt"], condition=Q(ended_at__isnull=True), name="one_open_idle_warning"
            )
        ]

    def __str__(self) -> str:
        return f"{self.job_attempt_id} since {self.since}"
