"""REST: signing in, one's account, tokens and SSH keys, the audit log."""

from portal.accounts.api.account import CurrentTokenView, LoginView, MeView, TokensView, TokenView
from portal.accounts.api.audit import AuditExportView, AuditView
from portal.accounts.api.keys import SshKeysView, SshKeyView

__all__ = [
    "AuditExportView",
    "AuditView",
    "CurrentTokenView",
    "LoginView",
    "MeView",
    "SshKeyView",
    "SshKeysView",
    "TokenView",
    "TokensView",
]
