"""Job file validation, all of it. Pure Python, no Django models."""
