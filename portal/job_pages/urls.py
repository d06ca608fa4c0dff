"""URLs of the job pages."""

from django.urls import path

from portal.job_pages.views.changing import job_priority_page, job_tags_page
from portal.job_pages.views.job import SECTIONS, job_page
from portal.job_pages.views.lists import bulk_page, job_list, view_forget_page, view_save_page
from portal.job_pages.views.nodes import node_given_up
from portal.job_pages.views.pages import (
    home,
    job_move_page,
    job_park_page,
    job_pause_page,
    job_resume_page,
    job_stop_page,
)
from portal.job_pages.views.submitting import submit

urlpatterns = [
    path("", home, name="home"),
    path("cluster/nodes/<name:name>/give-up", node_given_up, name="node-give-up"),
    path("jobs", job_list, name="jobs"),
    path("jobs/bulk", bulk_page, name="jobs-bulk"),
    path("jobs/views", view_save_page, name="view-save"),
    path("jobs/views/<int:view_id>/remove", view_forget_page, name="view-forget"),
    path("jobs/<int:job_id>", job_page, name="job"),
    *(path(f"jobs/<int:job_id>/{name}", job_page, {"section": name}, name=f"job-{name}") for name in SECTIONS if name),
    path("jobs/<int:job_id>/stop", job_stop_page, name="job-stop"),
    path("jobs/<int:job_id>/tags", job_tags_page, name="job-tags"),
    path("jobs/<int:job_id>/priority", job_priority_page, name="job-priority"),
    path("jobs/<int:job_id>/move", job_move_page, name="job-move"),
    path("jobs/<int:job_id>/pause", job_pause_page, name="job-pause"),
    path("jobs/<int:job_id>/park", job_park_page, name="job-park"),
    path("jobs/<int:job_id>/resume", job_resume_page, name="job-resume"),
    path("submit", submit, name="submit"),
]
