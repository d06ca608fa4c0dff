"""Pages and API of jobs: lists, a single job, submission."""
