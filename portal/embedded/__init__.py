"""The embedded stack: everything on this machine, with SQLite and a bundled Redis. ``make demo`` and ``make run``."""
