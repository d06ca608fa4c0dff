"""Deciding who is told of what, sending it, and what people and the administrator choose."""
