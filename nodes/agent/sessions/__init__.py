"""Sessions with the portal: shells in tasks, and files of job folders. See ``docs/decisions/sessions.md``."""
