"""What people type on the pages of the cluster."""
