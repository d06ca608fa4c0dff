"""Storages, job folders and code on this node: mounted, guarded, filled and deleted."""
