"""What each node is told and what it reports of its containers."""
