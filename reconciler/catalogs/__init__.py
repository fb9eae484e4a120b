"""Catalog adapters: observe and commit."""
