"""Parked jobs: off their GPUs, which they keep and lend, with their memory in the server's."""
