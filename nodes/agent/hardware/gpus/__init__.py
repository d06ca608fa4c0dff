"""GPUs of a node: inventory, samples, processes and health."""
