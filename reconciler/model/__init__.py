"""The vocabulary: types, tables, manifests. Pure; imports nothing above errors."""
