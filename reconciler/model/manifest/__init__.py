"""The pydantic models of the YAML manifests; the CRDs and the editors' JSON Schemas are made of them.

Each kind is imported when somebody asks for it: most commands are about tables alone, and building models takes time.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from reconciler.model.manifest.common import API_VERSION, GROUP, VERSION

if TYPE_CHECKING:
    from reconciler.model.manifest.catalog import LakeCatalog
    from reconciler.model.manifest.policy import LakePolicy
    from reconciler.model.manifest.table import LakeTable

    Manifest = LakeTable | LakeCatalog | LakePolicy

__all__ = ["API_VERSION", "GROUP", "VERSION", "LakeCatalog", "LakePolicy", "LakeTable", "Manifest"]

_MODULES = {"LakeTable": "table", "LakeCatalog": "catalog", "LakePolicy": "policy"}


def __getattr__(name: str) -> object:
    """Import a kind's model."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    model: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = model  # the next time it is found here
    return model
