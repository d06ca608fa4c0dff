"""One job onto hardware: which virtual cells it gets, and which physical leaves lie under them."""
