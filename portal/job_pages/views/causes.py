"""Default sentences for each state of a job, used if no more exact cause was stored."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_lazy as _

from portal.hardware.health_words import health_words
from portal.jobs.models import Job
from portal.jobs.states import EndReason, JobState

STATES: dict[str, str | Promise] = {
    JobState.WAITING: _("The scheduler has not looked at this job yet; it does so within a second."),
    JobState.STARTING: _(
        "It has its place; its tasks are being prepared: images are fetched, code and folders put there."
    ),
    JobState.RUNNING: _("Its tasks are running."),
    JobState.STOPPING: _("It was told to stop; its containers are ending."),
    JobState.SUCCEEDED: _("All its tasks are done."),
    JobState.FAILED: _("It failed; the log of the task that failed first says more."),
    JobState.STOPPED: _("Somebody stopped it."),
}
REASONS: dict[str, str | Promise] = {
    EndReason.SUCCEEDED: _("All its tasks are done."),
    EndReason.FAILED: _("A task failed; the end of its log says more."),
    EndReason.STOPPED: _("Somebody stopped it."),
    EndReason.START_FAILED: _("A task could not be started; its image, its storages or its node are to blame."),
    EndReason.NODE_FAULT: _("A node was at fault, not the job."),
    EndReason.NODE_LOST: _("A node was lost with what ran there."),
    EndReason.DRAINED: _("Its node was emptied by an administrator."),
    EndReason.PREEMPTED: _("Its GPUs went to a job with a better claim to them."),
    EndReason.TIME_LIMIT: _("It reached its time limit."),
    EndReason.IDLE: _("Its GPUs did nothing for longer than the idle policy allows."),
}


def cause_of(job: Job) -> str | Promise:
    """Why the job is in its state: the stored message, else a default sentence; both if the message cannot be
    translated for the reader."""
    if job.state == JobState.WAITING:
        return job.waiting_message or STATES[job.state]
    if job.state in {JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED}:
        reason = REASONS.get(job.end_reason) or STATES[job.state]
        told = health_words(job.end_message)
        if not told or told != job.end_message or get_language() == "en":
            return told or reason
        return gettext("%(reason)s (%(stored)s)") % {"reason": reason, "stored": job.end_message}
    return STATES[job.state]
