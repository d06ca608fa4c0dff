"""REST: what one is told of by e-mail, and the administrator's webhook."""
