"""Queries for jobs that a user may see: lists and details with a fixed number of queries."""
