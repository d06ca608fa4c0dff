"""Reading virtual clusters (VCs) and nodes: what somebody may see of them, what they are made of, how full they are."""
