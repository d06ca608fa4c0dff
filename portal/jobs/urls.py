"""Addresses of the job pages."""

from django.urls import path

from portal.jobs.views.changing import job_priority_page, job_tags_page
from portal.jobs.views.charts import job_charts_now
from portal.jobs.views.files import job_file_download, job_file_image
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
from portal.jobs.views.pages import home, job_move_page, job_pause_page, job_resume_page, job_stop_page
from portal.jobs.views.placing import job_queue_page
from portal.jobs.views.queueing import job_place_page, queue
from portal.jobs.views.strangers import stranger_end
from portal.jobs.views.submitting import submit
from portal.jobs.views.templates import template_new, template_page, template_remove_page, templates
from portal.jobs.views.usage import usage
from portal.jobs.views.vc_usage import vc_usage

urlpatterns = [
    path("", home, name="home"),
    path("cluster/nodes/<name:name>/give-up", node_given_up, name="node-give-up"),
    path("cluster/nodes/<name:name>/unknown/<name:attempt>/stop", stranger_end, name="stranger-end"),
    path("jobs", job_list, name="jobs"),
    path("jobs/bulk", bulk_page, name="jobs-bulk"),
    path("jobs/views", view_save_page, name="view-save"),
    path("jobs/views/<int:view_id>/remove", view_forget_page, name="view-forget"),
    path("jobs/<int:job_id>", job_page, name="job"),
    *(path(f"jobs/<int:job_id>/{name}", job_page, {"section": name}, name=f"job-{name}") for name in SECTIONS if name),
    path("jobs/<int:job_id>/files/content", job_file_download, name="job-file-download"),
    path("jobs/<int:job_id>/files/image", job_file_image, name="job-file-image"),
    path("jobs/<int:job_id>/charts/now", job_charts_now, name="job-charts-now"),
    path("jobs/<int:job_id>/stop", job_stop_page, name="job-stop"),
    path("jobs/<int:job_id>/tags", job_tags_page, name="job-tags"),
    path("jobs/<int:job_id>/priority", job_priority_page, name="job-priority"),
    path("jobs/<int:job_id>/move", job_move_page, name="job-move"),
    path("jobs/<int:job_id>/pause", job_pause_page, name="job-pause"),
    path("jobs/<int:job_id>/resume", job_resume_page, name="job-resume"),
    path("virtual-clusters/<name:name>/usage", vc_usage, name="vc-usage"),
    path("jobs/<int:job_id>/idle/extend", job_idle_extend_page, name="job-idle-extend"),
    path("idle", idle_page, name="idle"),
    path("idle/exceptions", idle_exemption_new, name="idle-except"),
    path("idle/exceptions/<int:exemption_id>/end", idle_exemption_end, name="idle-except-end"),
    path("virtual-clusters/<name:name>/idle", idle_page, name="vc-idle"),
    path("virtual-clusters/<name:name>/idle/exceptions", idle_exemption_new, name="vc-idle-except"),
    path("virtual-clusters/<name:name>/idle/end", idle_policy_end, name="vc-idle-end"),
    path("jobs/<int:job_id>/queue", job_queue_page, name="job-queue"),
    path("jobs/<int:job_id>/place", job_place_page, name="job-place"),
    path("queue", queue, name="queue"),
    path("usage", usage, name="usage"),
    path("submit", submit, name="submit"),
    path("templates", templates, name="templates"),
    path("templates/new", template_new, name="template-new"),
    path("templates/<int:template_id>", template_page, name="template"),
    path("templates/<int:template_id>/remove", template_remove_page, name="template-remove"),
]
