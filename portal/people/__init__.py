"""Accounts and groups with their virtual clusters, and sign-in by a provider."""
