"""Who comes first: the order inside a virtual cluster, fair shares between them, and the limits of their rules."""
