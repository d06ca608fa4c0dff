"""The queue: its order, places in it, and why jobs wait, in words."""
