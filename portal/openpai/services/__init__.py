"""Writing for OpenPAI's clients: its own words (tags, extensions), and Berth's services put together as it wants."""
