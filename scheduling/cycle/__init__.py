"""One pass over all jobs: who starts, who gives way, who moves into its quota, and why the others wait."""
