"""REST: what one is told of by e-mail, and the administrator's webhook."""

from portal.notices.api.choices import ChoiceView
from portal.notices.api.webhook import DeliveriesView, TestView, WebhookView

__all__ = ["ChoiceView", "DeliveriesView", "TestView", "WebhookView"]
