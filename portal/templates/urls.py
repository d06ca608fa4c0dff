"""Addresses of its pages."""

from django.urls import path

from portal.templates.views import template_new, template_page, template_remove_page, templates

urlpatterns = [
    path("templates", templates, name="templates"),
    path("templates/new", template_new, name="template-new"),
    path("templates/<int:template_id>", template_page, name="template"),
    path("templates/<int:template_id>/remove", template_remove_page, name="template-remove"),
]
