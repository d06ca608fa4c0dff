"""A large cluster made up: people, nodes, a past of finished jobs, jobs that run and wait. To measure, not to use."""
