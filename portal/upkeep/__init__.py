"""Backup and restore: everything that the portal remembers in one file, whatever database it is of."""
