"""What waits: its order, places in it, and why, in words."""
