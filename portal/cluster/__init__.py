"""The cluster's pages and API: map, nodes, GPUs, SKUs; its topology, and its configuration as one file."""
