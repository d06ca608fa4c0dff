"""Accounts and groups with the virtual clusters that they are in; signing in by a provider."""
