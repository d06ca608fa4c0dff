"""Task attempts of this node, from order to report of the end."""
