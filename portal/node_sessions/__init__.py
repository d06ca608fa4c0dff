"""Asking a node for something at once: its files, a shell."""
