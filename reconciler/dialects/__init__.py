"""The only place where formats differ. Pure."""
