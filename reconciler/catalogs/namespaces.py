"""Namespaces of a catalog, on top of any backend."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.catalogs.backend import Backend
from reconciler.errors import NamespaceAlreadyExists, NamespaceNotFound


def list_namespaces(backend: Backend) -> tuple[tuple[str, ...], ...]:
    """List every namespace, nested ones included, in order."""
    found: set[tuple[str, ...]] = set()
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        parent = waiting.pop()
        children = [c for c in backend.list_namespaces(parent) if len(c) > len(parent) and c not in found]
        found.update(children)
        waiting += children
    return tuple(sorted(found))


def ensure_namespace(backend: Backend, namespace: tuple[str, ...]) -> None:
    """Create a namespace and its parents; a no-op when it is there, which needs no right to create."""
    if not namespace or _describe(backend, namespace) is not None:
        return
    ensure_namespace(backend, namespace[:-1])
    try:
        backend.create_namespace(namespace)
    except NamespaceAlreadyExists:
        return  # somebody was faster


def _describe(backend: Backend, namespace: tuple[str, ...]) -> Mapping[str, str] | None:
    try:
        return backend.describe_namespace(namespace)
    except NamespaceNotFound:
        return None
