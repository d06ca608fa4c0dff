"""Listeners on the server that ask for no authentication, where tasks with the host network reach them."""
