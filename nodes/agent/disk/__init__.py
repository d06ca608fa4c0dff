"""Disk space on the node: what containers and images use, and what is removed when it runs out."""
