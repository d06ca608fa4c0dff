"""REST: signing in, one's account, tokens and SSH keys, the audit log."""

from portal.accounts.api.account import LoginView, MeView, TokensView, TokenView
from portal.accounts.api.audit import AuditExportView, AuditView
from portal.accounts.api.keys import SshKeysView, SshKeyView

__all__ = [
    "AuditExportView",
    "AuditView",
    "LoginView",
    "MeView",
    "SshKeyView",
    "SshKeysView",
    "TokenView",
    "TokensView",
]
