"""Servers that join: join tokens, node keys, and acceptance by an administrator."""
