"""Task logs: ingested, archived, searched, kept within quotas, shown live."""
