"""Upper bounds for a policy."""

LONGEST = 10_080
"""Minutes: a week."""
MOST_EXTENSIONS = 100
