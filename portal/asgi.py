"""The web process: pages and REST by Django, websockets by Channels."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

import django

# A request goes from the event loop to a thread and back, and asks for the interpreter each time: beside one that works
# for long it would wait 5 ms, Python's default, at every step.
sys.setswitchinterval(0.0005)
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup(set_prefix=False)

from portal.common.checks import settings_stop  # noqa: E402  Django must be set up first

settings_stop()

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from django.conf import settings  # noqa: E402
from django.urls import path, re_path  # noqa: E402
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware  # noqa: E402

from portal.accounts.first import started  # noqa: E402
from portal.accounts.large_bodies import large_body_seat  # noqa: E402
from portal.accounts.websockets import SignedIn  # noqa: E402
from portal.common.bodies import BodyLimit, Limits  # noqa: E402
from portal.common.handler import InOneThread  # noqa: E402
from portal.common.sockets import no_such_socket  # noqa: E402
from portal.data_folder.at_start import folder_first  # noqa: E402
from portal.job_pages.live_events import EventsConsumer  # noqa: E402
from portal.logs.consumer import LogConsumer, LogsConsumer  # noqa: E402
from portal.terminal.consumer import ShellConsumer  # noqa: E402

CODE_UPLOAD = "/api/v1/code"
CONSUMERS: dict[str, Any] = {
    "ws/events": EventsConsumer.as_asgi(),
    "ws/logs/<str:attempt>": LogConsumer.as_asgi(),
    "ws/jobs/<int:job>/logs": LogsConsumer.as_asgi(),
    "ws/exec/<str:attempt>": ShellConsumer.as_asgi(),
}
# What is there now stays. Answers make thousands of objects, which would have it gone through again and again.
gc.freeze()
gc.set_threshold(20_000, 20, 50)
anything_else: Any = no_such_socket
routes: list[Any] = [*(path(address, consumer) for address, consumer in CONSUMERS.items()), re_path("", anything_else)]


def body_limits(path: str) -> Limits:
    """The largest bodies that the address takes; views have smaller limits of their own."""
    most = settings.CODE_MAX_BYTES if path == CODE_UPLOAD else settings.BODY_MAX_BYTES
    return Limits(anybody=min(most, settings.BODY_MAX_BYTES), seated=most)


http = BodyLimit(InOneThread(), body_limits, large_body_seat)
kinds: Any = ProtocolTypeRouter(
    {"http": http, "websocket": SignedIn(URLRouter(routes)), "lifespan": folder_first(started)}
)
# X-Forwarded-For and -Proto of a proxy that is named. Uvicorn itself would believe whoever is on this machine, so it is
# started with --no-proxy-headers.
application = ProxyHeadersMiddleware(kinds, [str(network) for network in settings.TRUSTED_PROXIES])
