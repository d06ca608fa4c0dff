"""Pages of the cluster, of virtual clusters and of people."""
