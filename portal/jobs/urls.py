"""Addresses of the job pages."""

from django.urls import path

from portal.jobs import views

urlpatterns = [
    path("", views.home, name="home"),
    path("jobs", views.job_list, name="jobs"),
    path("jobs/<int:job_id>", views.job_page, name="job"),
    path("jobs/<int:job_id>/stop", views.job_stop_page, name="job-stop"),
    path("jobs/<int:job_id>/move", views.job_move_page, name="job-move"),
    path("queue", views.queue, name="queue"),
    path("submit", views.submit, name="submit"),
]
