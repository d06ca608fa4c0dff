"""Physical and virtual cells by number: what a cluster is made of, who has what, and what a job asks of it."""
