"""Signing in by an OpenID provider: what it says is fetched and judged here, and nothing is stored."""
