"""The portal's Celery application. Each worker takes only its own queues; no task outlives its moment."""

from __future__ import annotations

import os

import django
from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
# Celery would run all of Django's checks and throw away what they say. They load every page and all of the REST API: a
# second of work at each start, and memory, in processes that answer no request. Those of our own settings run below.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")
django.setup()

from django.conf import settings  # noqa: E402  settings must be set up before anything of ours is imported

from portal.alerts.watch import AlertsStep  # noqa: E402
from portal.common.checks import settings_stop  # noqa: E402
from portal.common.measuring import ConsumingStep, MeasuresStep  # noqa: E402
from portal.data_folder.at_start import FolderStep  # noqa: E402
from portal.logs.watch import WatchStep  # noqa: E402

settings_stop()
app = Celery("berth")
app.conf.update(settings.CELERY)
app.autodiscover_tasks()  # of all apps of the settings
app.steps["worker"].add(FolderStep)
app.steps["worker"].add(WatchStep)
app.steps["worker"].add(AlertsStep)
app.steps["worker"].add(MeasuresStep)
app.steps["consumer"].add(ConsumingStep)
