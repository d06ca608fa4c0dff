"""Sessions with the portal: shells in tasks, and the files of job folders. See ``docs/decisions/sessions.md``."""
