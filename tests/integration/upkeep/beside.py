"""Writes while a backup reads: `python -m tests.integration.upkeep.beside`, in the environment of an installation on
SQLite.

Prints as JSON how many sessions the backup sees before and after another has made one, and how many there are then.
"""

import json
import sqlite3
from contextlib import closing

import django


def main() -> None:
    django.setup()
    from django.conf import settings
    from django.contrib.sessions.models import Session

    from portal.upkeep.backup import one_moment

    with closing(sqlite3.connect(settings.DATABASES["default"]["NAME"], timeout=1)) as other:
        with one_moment():
            before = Session.objects.count()
            other.execute("INSERT INTO django_session VALUES ('key', 'data', '2030-01-01 00:00:00')")
            other.commit()
            after = Session.objects.count()
        print(json.dumps([before, after, Session.objects.count()]))


if __name__ == "__main__":
    main()
