"""What tasks used, minute by minute: readings folded into records, and charts."""
