"""Logs on the node: container -> spool -> Redis stream. The spool's byte position is the offset everywhere."""
