"""Pages of accounts."""

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
from portal.accounts.views.keys import ssh_key_end, ssh_keys

__all__ = [
    "audit",
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
