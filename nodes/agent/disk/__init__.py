"""Room on the node's disk: what containers and images take, and what goes when it runs out."""
