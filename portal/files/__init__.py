"""Files in job folders: listing, download, retention and deletion."""
