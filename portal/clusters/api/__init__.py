"""REST: virtual clusters and nodes."""
