"""Addresses of its pages."""

from django.urls import path

from portal.metrics.views import job_charts_now

urlpatterns = [
    path("jobs/<int:job_id>/charts/now", job_charts_now, name="job-charts-now"),
]
