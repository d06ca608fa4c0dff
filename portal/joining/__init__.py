"""Servers that join: tokens, keys, and an administrator's acceptance."""
