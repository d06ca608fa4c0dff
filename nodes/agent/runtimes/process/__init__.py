"""Tasks as plain process trees under a small wrapper. Not isolated, for one machine."""
