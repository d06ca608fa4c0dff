"""The cluster's pages and API: map, servers, GPUs, hardware kinds; its topology, and its configuration in one file."""
