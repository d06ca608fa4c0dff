"""Secrets and registry log-ins that people and virtual clusters store."""
