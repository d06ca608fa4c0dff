"""The pages and the API of jobs: lists, one job from near, submission."""
