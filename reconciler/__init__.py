"""LakeTable: a declarative table-spec reconciler for lakehouse tables."""
