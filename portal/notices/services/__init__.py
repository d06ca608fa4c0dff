"""Deciding who is told of what, sending it, and what people and the administrator choose."""

from portal.notices.services.alerts import alerts_tell
from portal.notices.services.bodies import AlertChange, AlertWords
from portal.notices.services.choices import notice_choice_set
from portal.notices.services.deliveries import delivery_send_next
from portal.notices.services.gather import notices_gather
from portal.notices.services.mails import mail_send_next, mails_make
from portal.notices.services.sending import lane_leave, lane_take
from portal.notices.services.upkeep import notices_expire, notices_give_up
from portal.notices.services.webhook import secret_make, webhook_delete, webhook_set, webhook_test

__all__ = [
    "AlertChange",
    "AlertWords",
    "alerts_tell",
    "delivery_send_next",
    "lane_leave",
    "lane_take",
    "mail_send_next",
    "mails_make",
    "notice_choice_set",
    "notices_expire",
    "notices_gather",
    "notices_give_up",
    "secret_make",
    "webhook_delete",
    "webhook_set",
    "webhook_test",
]
