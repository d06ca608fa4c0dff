"""The files of job folders: looked at, downloaded, kept and deleted."""
