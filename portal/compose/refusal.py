"""Why the stack does not start."""

from __future__ import annotations


class CannotStart(Exception):
    """Something that the operator has given, or a folder, cannot be used; the text is one sentence with its cure."""
