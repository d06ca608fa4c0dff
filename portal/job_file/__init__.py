"""The job file: the one home of its validation. Pure Python, no Django models."""
