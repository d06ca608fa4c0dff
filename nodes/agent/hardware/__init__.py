"""GPUs, CPU and memory of this server, and their readings."""
