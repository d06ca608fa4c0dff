"""Which images jobs may run."""
