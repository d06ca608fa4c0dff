"""REST: what the scheduler says; the cluster's configuration and quotas, and what a change would do to running jobs."""
