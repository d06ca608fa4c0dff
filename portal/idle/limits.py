"""What a policy may say at most."""

LONGEST = 10_080
"""Minutes: a week."""
MOST_EXTENSIONS = 100
