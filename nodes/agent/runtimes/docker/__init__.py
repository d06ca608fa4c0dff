"""Containers on the local Docker Engine. Only this folder talks to Docker."""
