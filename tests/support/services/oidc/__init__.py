"""A real OpenID provider, started by the tests."""
