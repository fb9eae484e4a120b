"""The operator: Kubernetes resources in, the same pipeline as the command line, `status` out.

A shell beside `cli`. Watches only enqueue keys (`watch`), a queue of our own serialises them per table (`queue`), every
reconcile starts with a fresh GET and ends with at most one status patch (`table`, `catalog`, `policy`). DESIGN.md names
the modules and the seams between them.
"""
