"""Services that write jobs: submission, stops, node reports. Each is one transaction or several whole ones."""
