"""Pages of jobs: those of all, one from near, and submitting one."""

from portal.jobs.views.changing import job_priority_page, job_tags_page
from portal.jobs.views.idle import (
    idle_exemption_end,
    idle_exemption_new,
    idle_page,
    idle_policy_end,
    job_idle_extend_page,
)
from portal.jobs.views.job import SECTIONS, job_page
from portal.jobs.views.lists import bulk_page, job_list, view_forget_page, view_save_page
from portal.jobs.views.nodes import node_given_up
from portal.jobs.views.pages import (
    home,
    job_move_page,
    job_pause_page,
    job_resume_page,
    job_stop_page,
)
from portal.jobs.views.placing import job_queue_page
from portal.jobs.views.queueing import job_place_page, queue
from portal.jobs.views.strangers import stranger_end
from portal.jobs.views.submitting import submit
from portal.jobs.views.templates import template_new, template_page, template_remove_page, templates

__all__ = [
    "node_given_up",
    "stranger_end",
    "SECTIONS",
    "bulk_page",
    "home",
    "idle_exemption_end",
    "idle_exemption_new",
    "idle_page",
    "idle_policy_end",
    "job_idle_extend_page",
    "job_list",
    "job_move_page",
    "job_page",
    "job_pause_page",
    "job_resume_page",
    "job_place_page",
    "job_priority_page",
    "job_queue_page",
    "job_stop_page",
    "job_tags_page",
    "queue",
    "submit",
    "template_new",
    "template_page",
    "template_remove_page",
    "templates",
    "view_forget_page",
    "view_save_page",
]
