"""Hardware of this server: GPUs, CPU and memory, and their readings."""
