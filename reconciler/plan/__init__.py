"""Changes in, operations, findings, decisions out. Pure."""
