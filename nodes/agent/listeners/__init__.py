"""What answers on the server without authentication, where tasks with the host network reach it."""
