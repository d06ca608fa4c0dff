"""Logs of tasks: taken in, archived, searched, kept within quotas, shown live."""
