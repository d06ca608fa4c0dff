"""Pages of what the scheduler is told, and of what is wrong."""
