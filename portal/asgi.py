"""The web process: pages and REST by Django, websockets by Channels."""

from __future__ import annotations

import os
import sys
from typing import Any

from django.core.asgi import get_asgi_application

# A request goes from the event loop to a thread and back, and asks for the interpreter each time: beside one that works
# for long it would wait 5 ms, Python's default, at every step.
sys.setswitchinterval(0.0005)
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django_application = get_asgi_application()

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402  Django must be set up first
from django.urls import path  # noqa: E402

from portal.accounts.websockets import SignedIn  # noqa: E402
from portal.jobs.consumers import EventsConsumer  # noqa: E402
from portal.jobs.logs.consumer import LogConsumer  # noqa: E402
from portal.jobs.sessions.consumer import ShellConsumer  # noqa: E402

CONSUMERS: dict[str, Any] = {
    "ws/events": EventsConsumer.as_asgi(),
    "ws/logs/<str:attempt>": LogConsumer.as_asgi(),
    "ws/exec/<str:attempt>": ShellConsumer.as_asgi(),
}
routes: list[Any] = [path(address, consumer) for address, consumer in CONSUMERS.items()]
application = ProtocolTypeRouter({"http": django_application, "websocket": SignedIn(URLRouter(routes))})
