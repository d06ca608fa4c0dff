"""GPU hours: daily sums and reports."""
