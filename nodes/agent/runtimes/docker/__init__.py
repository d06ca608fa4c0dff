"""Containers on the local Docker Engine. Only this package talks to Docker."""
