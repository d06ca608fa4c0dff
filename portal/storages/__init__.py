"""Storages: folders that servers mount, which servers are tied to them, and proofs of it."""
