"""Addresses of its pages."""

from django.urls import path

from portal.secrets.views import login_forget, login_store, secret_forget, secret_store, secrets

urlpatterns = [
    path("virtual-clusters/<name:vc>/secrets", secrets, name="vc-secrets"),
    path("virtual-clusters/<name:vc>/secrets/store", secret_store, name="vc-secret-store"),
    path("virtual-clusters/<name:vc>/secrets/<secret:secret>/forget", secret_forget, name="vc-secret-forget"),
    path("virtual-clusters/<name:vc>/secrets/registries", login_store, name="vc-login-store"),
    path("virtual-clusters/<name:vc>/secrets/registries/<server:server>/forget", login_forget, name="vc-login-forget"),
    path("profile/secrets", secrets, name="secrets"),
    path("profile/secrets/store", secret_store, name="secret-store"),
    path("profile/secrets/<secret:secret>/forget", secret_forget, name="secret-forget"),
    path("profile/secrets/registries", login_store, name="login-store"),
    path("profile/secrets/registries/<server:server>/forget", login_forget, name="login-forget"),
]
