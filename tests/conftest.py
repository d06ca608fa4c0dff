"""Wiring of the test run: which settings Django reads, and where the services come from."""
