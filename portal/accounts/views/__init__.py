"""Pages of accounts."""

from portal.accounts.views.account import (
    login_page,
    logout_page,
    password_change,
    profile,
    token_end,
    token_new,
)

__all__ = [
    "login_page",
    "logout_page",
    "password_change",
    "profile",
    "token_end",
    "token_new",
]
