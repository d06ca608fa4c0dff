"""Writing jobs: submit, stop, and what nodes report. Each service is one transaction or several whole ones."""
