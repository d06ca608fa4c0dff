"""A task is a plain process tree under a small wrapper. Not isolated, for one machine."""
