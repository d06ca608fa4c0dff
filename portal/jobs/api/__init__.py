"""REST: jobs."""
