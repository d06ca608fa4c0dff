"""The scheduling cycle: rows in, the engine's plan, rows out."""
