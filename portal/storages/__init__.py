"""Folders that servers mount: which there are, which servers answer for them, and proofs of it."""
