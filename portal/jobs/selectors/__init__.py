"""Reading jobs: what somebody may see, as lists and details with a fixed number of queries."""
