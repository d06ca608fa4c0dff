"""Pages of accounts."""

from portal.accounts.views.account import (
    back_door_login,
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

__all__ = [
    "audit",
    "back_door_login",
    "first",
    "password_forgotten",
    "password_new",
    "ssh_key_end",
    "ssh_keys",
    "language",
    "login_page",
    "logout_page",
    "password_change",
    "profile",
    "token_end",
    "token_new",
]
