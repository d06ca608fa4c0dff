"""One round of what the control worker does every two seconds."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone

from portal.accounts.models import User
from portal.jobs.exits import END
from portal.jobs.models import Job, JobEvent
from portal.notices.models import Mail, Webhook
from portal.notices.services.choices import notice_choice_set
from portal.notices.services.deliveries import delivery_send_next
from portal.notices.services.gather import notices_gather
from portal.notices.services.mails import mail_send_next, mails_make
from portal.notices.services.sending import lane_leave, lane_take
from portal.notices.services.webhook import webhook_set

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def choose(user: User, *kinds: str) -> None:
    notice_choice_set(user=user, kinds=kinds, now=timezone.now())


def hook(url: str, *kinds: str) -> Webhook:
    return webhook_set(url=url, kinds=kinds, secret=SECRET, actor="root", now=timezone.now())[0]


def mail_round(now: datetime | None = None) -> None:
    """What happened becomes mails, and those that are due are tried."""
    moment = now or timezone.now()
    notices_gather(now=moment)
    mails_make(now=moment)
    if lane_take("mail", now=moment):
        while mail_send_next(now=moment):
            pass
        lane_leave("mail", now=moment)


def hook_round(now: datetime | None = None) -> None:
    """The same of the webhook."""
    moment = now or timezone.now()
    notices_gather(now=moment)
    if lane_take("webhook", now=moment):
        while delivery_send_next(now=moment):
            pass
        lane_leave("webhook", now=moment)


def ended_jobs(like: Job, count: int, *, code: str = "failed", name: str = "many") -> None:
    """So many jobs of the same user that ended at once."""
    jobs = Job.objects.bulk_create(
        Job(
            user=like.user,
            vc=like.vc,
            name=name,
            run=run,
            priority=10,
            spec=like.spec,
            submitted_at=like.submitted_at,
        )
        for run in range(1, count + 1)
    )
    now = timezone.now()
    JobEvent.objects.bulk_create(
        JobEvent(job=job, at=now, code=code, data=END(what=f"It {code}").stored()) for job in jobs
    )


def mail_of(user: User, now: datetime, **more: object) -> Mail:
    """A mail of one alert, not stored yet, made and due then."""
    moment = now.isoformat()
    said = {"begun": True, "severity": "warning", "since": moment, "at": moment, "name": "gpu01",
            "message": "It is lost.", "advice": "Look."}  # fmt: skip
    due = {"created_at": now, "next_try_at": now, "claimed_until": now}
    return Mail(user=user, alerts=[said], **{**due, **more})
