"""Job templates, and the gallery of samples."""
