"""Orders to nodes, and their reports on containers."""
