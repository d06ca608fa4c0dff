"""Addresses of the notices' pages."""

from django.urls import path

from portal.notices import views

urlpatterns = [
    path("profile/notices", views.notices, name="notices"),
    path("cluster/webhook", views.webhook, name="webhook"),
    path("cluster/webhook/test", views.webhook_try, name="webhook-test"),
    path("cluster/webhook/remove", views.webhook_remove, name="webhook-remove"),
]
