"""URLs of files in job folders."""

from django.urls import path

from portal.files.views import job_file_download, job_file_image

urlpatterns = [
    path("jobs/<int:job_id>/files/content", job_file_download, name="job-file-download"),
    path("jobs/<int:job_id>/files/image", job_file_image, name="job-file-image"),
]
