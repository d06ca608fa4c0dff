"""What tasks used while they ran: points of some seconds, kept as a file for each task attempt and summed for usage."""
