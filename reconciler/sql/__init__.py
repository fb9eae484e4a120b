"""SQL written by tenants: parsed, held to an allowlist and printed anew; nothing of it reaches Spark verbatim."""
