"""OpenPAI's REST API v2."""
