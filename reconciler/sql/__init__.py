"""SQL written by tenants: parsed, held to an allowlist and printed anew; nothing an author wrote reaches Spark verbatim."""
