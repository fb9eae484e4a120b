"""docs/tenancy.md lists what a LakeCatalog may set: all of it, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reconciler.errors import InvalidInput
from reconciler.model.manifest import LakeCatalog
from reconciler.model.property_keys import is_secret_key
from reconciler.operator.tenancy import catalog_properties

PAGE = (Path(__file__).parents[2] / "docs" / "tenancy.md").read_text()
_ROW = re.compile(r"^\| (connection|signing|AWS|storage|only in the Secret) \| (.+) \|$", re.MULTILINE)
ROWS = {name: re.findall(r"`([^`]+)`", keys) for name, keys in _ROW.findall(PAGE)}
LISTED = sorted(key for keys in ROWS.values() for key in keys)
ADDRESSES = {"uri", "oauth2-server-uri", "s3.endpoint", "glue.endpoint", "gcs.service.host", "warehouse"}


def allowed(**properties: str) -> dict[str, str]:
    catalog = LakeCatalog.model_validate(
        {
            "apiVersion": "laketable.dev/v1alpha1",
            "kind": "LakeCatalog",
            "metadata": {"name": "lake", "namespace": "sales"},
            "spec": {"properties": {}},
        }
    )
    return catalog_properties(catalog, {"type": "rest", "uri": "https://service.example", **properties})


@pytest.mark.parametrize("key", LISTED)
def test_every_listed_property_is_allowed(key: str) -> None:
    value = "https://service.example" if key in ADDRESSES else "rest"
    assert allowed(**{key: value})[key] == value


def test_nothing_else_is_allowed() -> None:
    assert len(LISTED) == len(set(LISTED)) == 47
    for key in ("c", "-", "py-io-impl", "s3.signer", "ssl.client.key", "jdbc.password"):
        with pytest.raises(InvalidInput, match="not among the properties"):
            allowed(**{key: "x"})


@pytest.mark.parametrize("kind", re.findall(r"`(\w+)`", PAGE.partition("Its `type` is ")[2].partition(";")[0]))
def test_every_listed_type_is_allowed(kind: str) -> None:
    assert allowed(type=kind)["type"] == kind


def test_what_is_secret_is_listed_as_secret() -> None:
    assert {key for key in LISTED if is_secret_key(key)} == set(ROWS["only in the Secret"])
