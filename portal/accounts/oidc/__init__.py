"""Sign-in by an OpenID provider: fetches and validates what it says; stores nothing."""
