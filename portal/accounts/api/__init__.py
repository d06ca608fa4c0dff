"""REST: signing in, one's account, tokens and SSH keys, the audit log."""
