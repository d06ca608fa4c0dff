"""Which data folder belongs to the database, and when both were backed up and restored."""
