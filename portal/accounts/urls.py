"""Addresses of the account pages."""

from django.urls import path

from portal.accounts import views

urlpatterns = [
    path("login", views.login_page, name="login"),
    path("first", views.first, name="first"),
    path("password/forgotten", views.password_forgotten, name="password-forgotten"),
    path("password/new/<str:uid>/<str:token>", views.password_new, name="password-new"),
    path("logout", views.logout_page, name="logout"),
    path("language", views.language, name="language"),
    path("profile", views.profile, name="profile"),
    path("profile/password", views.password_change, name="password"),
    path("profile/tokens", views.token_new, name="token-new"),
    path("profile/tokens/<int:token_id>/revoke", views.token_end, name="token-end"),
    path("profile/ssh-keys", views.ssh_keys, name="ssh-keys"),
    path("profile/ssh-keys/<int:key_id>/forget", views.ssh_key_end, name="ssh-key-end"),
    path("audit", views.audit, name="audit"),
]
