"""Whole-process measurements of speed and size, beside other tools in the same run: `make bench`."""
