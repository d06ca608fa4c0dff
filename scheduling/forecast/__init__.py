"""When a waiting job will start."""
