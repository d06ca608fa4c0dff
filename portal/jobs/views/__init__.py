"""Pages of jobs: the list, a single job, submission."""
