"""GPU hours: summed up by day, reported."""
