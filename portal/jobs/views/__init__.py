"""Pages of jobs: those of all, one from near, and submitting one."""
