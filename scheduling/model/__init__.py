"""What goes into the engine and comes out of it, as plain data: clusters, jobs, snapshots, plans."""
