"""What the parts of a LakeCatalog mean together."""

from __future__ import annotations

from reconciler.model.faults import Fault
from reconciler.model.manifest.catalog import LakeCatalog
from reconciler.model.manifest.common import PASSWORD_IN_URL
from reconciler.model.manifest.runtime_checks import runtime_faults
from reconciler.model.property_keys import is_secret_key, loads_code


def catalog_faults(catalog: LakeCatalog, *, is_tenant: bool = False) -> list[Fault]:
    """Return every fault of a LakeCatalog; `is_tenant` means untrusted: secrets only by reference, no local files."""
    faults: list[Fault] = []
    for key, value in (catalog.spec.properties or {}).items():
        path = ("spec", "properties", key)
        if loads_code(key):
            hint = "If you trust it, set it in PyIceberg's own configuration."
            faults.append(Fault(path, f"'{key}' cannot be set: it names code to load", hint, at_key=True))
        elif is_tenant and is_secret_key(key):
            hint = "Put it into a Secret and name that in spec.secretRef."
            faults.append(Fault(path, f"'{key}' holds a secret", hint, at_key=True))
        elif PASSWORD_IN_URL.search(value):
            faults.append(Fault(path, f"'{key}' holds a password inside a URL", "Put it into spec.secretRef."))
        elif is_tenant and value.lower().startswith(("file:", "sqlite:", "/")):
            faults.append(Fault(path, f"'{key}' names a local file", "Use an object store or a catalog server."))
    if catalog.spec.runtime is not None:
        faults += runtime_faults(catalog.spec.runtime)
    return faults
