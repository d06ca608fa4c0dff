"""Whom to take cells from: the cost of each victim, and who inside a virtual cluster gives way."""
