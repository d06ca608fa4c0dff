"""REST: signing in, one's account and tokens, the audit log."""

from portal.accounts.api.account import LoginView, MeView, TokensView, TokenView
from portal.accounts.api.audit import AuditExportView, AuditView

__all__ = ["AuditExportView", "AuditView", "LoginView", "MeView", "TokenView", "TokensView"]
