"""Addresses of its pages."""

from django.urls import path

from portal.images.views import image_end, images

urlpatterns = [
    path("images", images, name="images"),
    path("images/<int:rule_id>/remove", image_end, name="image-remove"),
]
