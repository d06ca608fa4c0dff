"""When waiting jobs may start, and what would become of one that is not submitted yet."""
