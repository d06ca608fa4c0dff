"""URLs of the account pages."""

from django.urls import path

from portal.accounts.views.account import (
    language,
    login_page,
    logout_page,
    password_change,
    profile,
    token_end,
    token_new,
)
from portal.accounts.views.audit import audit
from portal.accounts.views.first import first
from portal.accounts.views.keys import ssh_key_end, ssh_keys
from portal.accounts.views.passwords import password_forgotten, password_new

urlpatterns = [
    path("login", login_page, name="login"),
    path("first", first, name="first"),
    path("password/forgotten", password_forgotten, name="password-forgotten"),
    path("password/new/<str:uid>/<str:token>", password_new, name="password-new"),
    path("logout", logout_page, name="logout"),
    path("language", language, name="language"),
    path("profile", profile, name="profile"),
    path("profile/password", password_change, name="password"),
    path("profile/tokens", token_new, name="token-new"),
    path("profile/tokens/<int:token_id>/revoke", token_end, name="token-end"),
    path("profile/ssh-keys", ssh_keys, name="ssh-keys"),
    path("profile/ssh-keys/<int:key_id>/forget", ssh_key_end, name="ssh-key-end"),
    path("audit", audit, name="audit"),
]
