"""The agent on a GPU server: takes orders from the portal, runs task attempts, and reports. ``README.md`` is its
map."""
