"""Runtimes for task attempts: ``docker`` (the real one) and ``process`` (for one machine without Docker)."""
