"""Plans and events as text, JSON, Markdown and SARIF. Pure."""
