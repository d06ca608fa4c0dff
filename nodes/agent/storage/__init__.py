"""Storages, job folders and code on this node: mounting, guarding, filling, deleting."""
