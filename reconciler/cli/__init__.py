"""The command line: arguments in, pipeline, render out."""
