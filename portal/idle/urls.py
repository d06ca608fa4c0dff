"""URLs of the idle policy's pages."""

from django.urls import path

from portal.idle.views import idle_exemption_end, idle_exemption_new, idle_page, idle_policy_end, job_idle_extend_page

urlpatterns = [
    path("jobs/<int:job_id>/idle/extend", job_idle_extend_page, name="job-idle-extend"),
    path("idle", idle_page, name="idle"),
    path("idle/exceptions", idle_exemption_new, name="idle-except"),
    path("idle/exceptions/<int:exemption_id>/end", idle_exemption_end, name="idle-except-end"),
    path("virtual-clusters/<name:name>/idle", idle_page, name="vc-idle"),
    path("virtual-clusters/<name:name>/idle/exceptions", idle_exemption_new, name="vc-idle-except"),
    path("virtual-clusters/<name:name>/idle/end", idle_policy_end, name="vc-idle-end"),
]
