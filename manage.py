#!/usr/bin/env python
"""Berth's commands; ``manage.py help`` lists them."""

import os
import sys

from django.core.management import execute_from_command_line


def main() -> None:
    """What fails outside the portal is one sentence, and exit status 1."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    # A command has one connection, and knows at once if there is none.
    os.environ.setdefault("BERTH_DATABASE_POOL", "0")
    try:
        execute_from_command_line(sys.argv)
    except Exception as error:
        from portal.common.outages import outage

        if not (words := outage(error)):
            raise
        sys.exit(f"berth: {words}")


if __name__ == "__main__":
    main()
