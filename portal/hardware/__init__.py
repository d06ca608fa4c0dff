"""Nodes, GPUs and cells as rows: what nodes report, their health, and what closes them."""
