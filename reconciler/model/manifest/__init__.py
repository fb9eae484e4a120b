"""The pydantic models of the YAML manifests; the CRDs and the editors' JSON Schemas are made of them."""

from reconciler.model.manifest.catalog import LakeCatalog
from reconciler.model.manifest.common import API_VERSION, GROUP, VERSION
from reconciler.model.manifest.policy import LakePolicy
from reconciler.model.manifest.table import LakeTable

Manifest = LakeTable | LakeCatalog | LakePolicy

__all__ = ["API_VERSION", "GROUP", "VERSION", "LakeCatalog", "LakePolicy", "LakeTable", "Manifest"]
