"""Addresses of the job pages."""

from django.urls import path

from portal.jobs import views
from portal.jobs.views.charts import job_charts_now
from portal.jobs.views.files import job_file_download, job_file_image
from portal.jobs.views.usage import usage
from portal.jobs.views.vc_usage import vc_usage

urlpatterns = [
    path("", views.home, name="home"),
    path("cluster/nodes/<name:name>/give-up", views.node_given_up, name="node-give-up"),
    path("cluster/nodes/<name:name>/unknown/<name:attempt>/stop", views.stranger_end, name="stranger-end"),
    path("jobs", views.job_list, name="jobs"),
    path("jobs/bulk", views.bulk_page, name="jobs-bulk"),
    path("jobs/views", views.view_save_page, name="view-save"),
    path("jobs/views/<int:view_id>/remove", views.view_forget_page, name="view-forget"),
    path("jobs/<int:job_id>", views.job_page, name="job"),
    *(
        path(f"jobs/<int:job_id>/{name}", views.job_page, {"section": name}, name=f"job-{name}")
        for name in views.SECTIONS
        if name
    ),
    path("jobs/<int:job_id>/files/content", job_file_download, name="job-file-download"),
    path("jobs/<int:job_id>/files/image", job_file_image, name="job-file-image"),
    path("jobs/<int:job_id>/charts/now", job_charts_now, name="job-charts-now"),
    path("jobs/<int:job_id>/stop", views.job_stop_page, name="job-stop"),
    path("jobs/<int:job_id>/tags", views.job_tags_page, name="job-tags"),
    path("jobs/<int:job_id>/priority", views.job_priority_page, name="job-priority"),
    path("jobs/<int:job_id>/move", views.job_move_page, name="job-move"),
    path("jobs/<int:job_id>/pause", views.job_pause_page, name="job-pause"),
    path("jobs/<int:job_id>/resume", views.job_resume_page, name="job-resume"),
    path("virtual-clusters/<name:name>/usage", vc_usage, name="vc-usage"),
    path("jobs/<int:job_id>/idle/extend", views.job_idle_extend_page, name="job-idle-extend"),
    path("idle", views.idle_page, name="idle"),
    path("idle/exceptions", views.idle_exemption_new, name="idle-except"),
    path("idle/exceptions/<int:exemption_id>/end", views.idle_exemption_end, name="idle-except-end"),
    path("virtual-clusters/<name:name>/idle", views.idle_page, name="vc-idle"),
    path("virtual-clusters/<name:name>/idle/exceptions", views.idle_exemption_new, name="vc-idle-except"),
    path("virtual-clusters/<name:name>/idle/end", views.idle_policy_end, name="vc-idle-end"),
    path("jobs/<int:job_id>/queue", views.job_queue_page, name="job-queue"),
    path("jobs/<int:job_id>/place", views.job_place_page, name="job-place"),
    path("queue", views.queue, name="queue"),
    path("usage", usage, name="usage"),
    path("submit", views.submit, name="submit"),
    path("templates", views.templates, name="templates"),
    path("templates/new", views.template_new, name="template-new"),
    path("templates/<int:template_id>", views.template_page, name="template"),
    path("templates/<int:template_id>/remove", views.template_remove_page, name="template-remove"),
]
