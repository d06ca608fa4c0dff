"""URLs of the queue's pages."""

from django.urls import path

from portal.queue.views.placing import job_queue_page
from portal.queue.views.queueing import job_place_page, queue

urlpatterns = [
    path("jobs/<int:job_id>/queue", job_queue_page, name="job-queue"),
    path("jobs/<int:job_id>/place", job_place_page, name="job-place"),
    path("queue", queue, name="queue"),
]
