"""A clock of the portal that was ahead for a while holds up neither mails nor deliveries once it is right again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from portal.notices.lanes import run_lane
from portal.notices.models import Delivery, Lane, Mail
from portal.notices.services.deliveries import delivery_send_next
from portal.notices.services.sending import lane_shut, lane_take
from portal.notices.services.webhook import webhook_test
from tests.integration.notices.telling import choose, hook, hook_round, mail_of, mail_round
from tests.integration.notices.test_mails import failed_job
from tests.support.cluster.world import World
from tests.support.services.mail_server import MailServer
from tests.support.services.receiver import Receiver

pytestmark = pytest.mark.django_db
WRONG_BY = timedelta(hours=8)
SECOND = timedelta(seconds=1)


def test_a_way_out_that_was_left_or_shut_by_a_clock_that_was_ahead_is_open(world: World) -> None:
    now = timezone.now()
    run_lane("webhook", lambda *, now: False, clock=lambda: now + WRONG_BY)
    assert lane_take("webhook", now=now)
    assert not lane_take("webhook", now=now + 60 * SECOND), "but not while somebody uses it"
    Lane.objects.update(busy_until=now)
    lane_shut("webhook", now=now + WRONG_BY)
    assert lane_take("webhook", now=now)
    Lane.objects.update(busy_until=now)
    for _ in range(9):
        lane_shut("webhook", now=now)
    assert not lane_take("webhook", now=now + 120 * SECOND), "nor while the other end does not answer"


def test_what_was_made_tried_or_claimed_by_such_a_clock_is_sent(world: World, receiver: Receiver) -> None:
    hook(receiver.url)
    now = timezone.now()
    made = webhook_test(actor="root", now=now + timedelta(hours=2))
    tried, claimed = (webhook_test(actor="root", now=now) for _ in range(2))
    Delivery.objects.filter(pk=tried.pk).update(attempts=2, next_try_at=now + WRONG_BY, claimed_until=now + WRONG_BY)
    Delivery.objects.filter(pk=claimed.pk).update(attempts=1, claimed_until=now + WRONG_BY + 120 * SECOND)
    hook_round(now)
    sent = {got.headers["webhook-id"] for got in receiver.received}
    assert sent == {made.message_id, tried.message_id, claimed.message_id}


@pytest.mark.parametrize(
    "columns",
    [lambda now: {"attempts": 9, "next_try_at": now + timedelta(hours=3)},
     lambda now: {"attempts": 1, "claimed_until": now + 120 * SECOND}],
    ids=["its next try is later", "somebody tries it"],
)  # fmt: skip
def test_what_is_not_due_yet_is_left_alone(
    world: World, receiver: Receiver, columns: Callable[..., dict[str, object]]
) -> None:
    hook(receiver.url)
    now = timezone.now()
    webhook_test(actor="root", now=now)
    Delivery.objects.update(**columns(now))
    assert not delivery_send_next(now=now)
    assert receiver.received == []


def test_mails_of_such_a_clock_are_none_of_this_minute(world: World, mail_server: MailServer) -> None:
    choose(world.user, "failed")
    now = timezone.now()
    ahead = now + WRONG_BY
    Mail.objects.bulk_create(
        mail_of(world.user, ahead, state="sent", ended_at=ahead) for _ in range(settings.MAILS_PER_MINUTE)
    )
    failed_job(world)
    mail_round(now)
    assert len(mail_server.letters) == 1
