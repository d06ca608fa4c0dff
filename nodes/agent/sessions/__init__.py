"""Sessions with the portal: shells in tasks, and the files of job folders. See ``docs/decisions/sessions.md``."""

from nodes.agent.sessions.door import Door

__all__ = ["Door"]
