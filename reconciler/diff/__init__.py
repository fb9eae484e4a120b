"""Two specs in, the changes between them out. Pure."""
