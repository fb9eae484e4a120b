"""Add columns to a Parquet file without decoding the ones it has; everything else is the rewriting way's work."""
