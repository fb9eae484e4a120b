"""Where a catalog comes from: explicit properties, PyIceberg's own configuration, or the embedded default.

The embedded catalog is one SQLite file and a warehouse folder below `.laketable/`, which PyIceberg (`type=sql`) and
Spark (`type=jdbc`) share. Nothing here opens a connection or writes a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from reconciler.errors import InvalidInput
from reconciler.model.table import TableIdent

DEFAULT_CATALOG = "lake"
EMBEDDED = "embedded"
PROJECT_FOLDER = ".laketable"
MASK = "***"

PropertyValue = str | Mapping[str, "PropertyValue"]
_CONFIG_FILE = ".pyiceberg.yaml"
_ENV_PREFIX = "pyiceberg_"
_SENSITIVE_KEY = (
    r"(?i)token|credential|secret|passw|key|sas\b|sas-|signature|connection-string|authorization|cookie|header\."
)
_USERINFO = r"(?<=://)[^/?#@\s]*@"
_SENSITIVE_PARAMETER = r"(?i)\b([\w.-]*(?:passw|pwd|token|secret|sig|credential|key)[\w.-]*)=[^&;\s]*"
_UNSAFE_IN_PATH = "?#%"


class CatalogSettings(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One catalog's name and PyIceberg properties; `origin` tells people where they came from."""

    name: str
    properties: Mapping[str, PropertyValue]
    origin: str

    @property
    def uri(self) -> str:
        """The catalog's address; empty for those that have none (Glue)."""
        value = self.properties.get("uri", "")
        return value if isinstance(value, str) else ""

    @property
    def kind(self) -> str:
        """PyIceberg's catalog type, inferred from the uri as PyIceberg does."""
        stated = self.properties.get("type")
        if isinstance(stated, str) and stated:
            return stated.lower()
        for prefix, kind in (("http", "rest"), ("thrift", "hive"), ("sqlite", "sql"), ("postgresql", "sql")):
            if self.uri.startswith(prefix):
                return kind
        return ""

    @property
    def sqlite_path(self) -> Path | None:
        """The file of a SQLite catalog; None for every other catalog, and where SQLite is to parse a `file:` URI."""
        scheme, separator, rest = self.uri.partition(":///")
        if self.kind != "sql" or not separator or scheme.partition("+")[0] != "sqlite":
            return None
        path = rest.partition("?")[0]
        return Path(path) if path and path != ":memory:" and not path.startswith("file:") else None

    @cached_property
    def place(self) -> str:
        """The catalog as messages name it: never with userinfo, path or query."""
        if self.sqlite_path is not None:
            return f"catalog {self.name} ({self.sqlite_path})"
        try:
            parts = urlsplit(self.uri)
            host = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname
        except ValueError:
            host = None
        return f"catalog {self.name} ({host})" if host else f"catalog {self.name}"

    def where(self, about: TableIdent | tuple[str, ...]) -> str:
        """Name a table or a namespace of this catalog for a message; () is the catalog itself."""
        name = ".".join(about) if isinstance(about, tuple) else str(about)
        return f"{self.place}: {name}" if name else self.place

    def text(self, key: str, default: str = "") -> str:
        """Return a property that is plain text."""
        value = self.properties.get(key, default)
        return value if isinstance(value, str) else default

    def masked(self) -> dict[str, PropertyValue]:
        """Return the properties as people may see them."""
        return {key: _mask(key, value) for key, value in self.properties.items()}

    def __repr__(self) -> str:
        """Show everything but secrets."""
        return f"CatalogSettings(name={self.name!r}, properties={self.masked()!r}, origin={self.origin!r})"

    __str__ = __repr__


def explicit(name: str, properties: Mapping[str, PropertyValue], origin: str = "LakeCatalog") -> CatalogSettings:
    """Return a catalog from properties in PyIceberg's own keys."""
    return CatalogSettings(name=name, properties=dict(properties), origin=origin)


def embedded(project: Path, name: str = DEFAULT_CATALOG) -> CatalogSettings:
    """Return the embedded catalog of a project folder; its files appear with the first commit."""
    folder = project.absolute() / PROJECT_FOLDER
    if any(character in str(folder) for character in _UNSAFE_IN_PATH):
        raise InvalidInput(
            "The embedded catalog cannot live in a folder whose path holds '?', '#' or '%'.",
            where=str(folder),
            hint="Move the project, or configure a catalog.",
        )
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    return CatalogSettings(name=name, properties=properties, origin=EMBEDDED)


def pyiceberg_catalogs(environ: Mapping[str, str], cwd: Path | None = None) -> dict[str, CatalogSettings]:
    """Return every catalog of `.pyiceberg.yaml` and `PYICEBERG_CATALOG__…`, the default one first.

    Read here and not by PyIceberg, whose import costs more than a whole plan.
    """
    config, origin = _config_file(environ, cwd or Path.cwd())
    catalogs: dict[str, dict[str, PropertyValue]] = {}
    origins: dict[str, str] = {}
    stored = config.get("catalog")
    for name, properties in stored.items() if isinstance(stored, Mapping) else ():
        if isinstance(properties, Mapping):
            catalogs[name.lower()], origins[name.lower()] = dict(properties), origin
    default = config.get("default-catalog")
    for variable, value in environ.items():
        lower = variable.lower()
        if not lower.startswith(_ENV_PREFIX):
            continue
        parts = [part.replace("__", ".").replace("_", "-") for part in lower.removeprefix(_ENV_PREFIX).split("__", 2)]
        if parts == ["default-catalog"]:
            default = value
        elif parts[0] == "catalog" and len(parts) == 3:
            catalogs.setdefault(parts[1], {})[parts[2]] = value
            origins.setdefault(parts[1], "environment")
    first = default.lower() if isinstance(default, str) else "default"
    names = sorted(catalogs, key=lambda name: name != first)
    return {n: CatalogSettings(name=n, properties=catalogs[n], origin=origins[n]) for n in names}


def _config_file(environ: Mapping[str, str], cwd: Path) -> tuple[dict[str, PropertyValue], str]:
    home = environ.get("HOME")
    for folder in (environ.get("PYICEBERG_HOME"), home, str(cwd)):
        path = Path(folder) / _CONFIG_FILE if folder else None
        if path is not None and path.is_file():
            return _load_yaml(path), str(path)
    return {}, ""


def _load_yaml(path: Path) -> dict[str, PropertyValue]:
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # scalars stay text, as PyIceberg reads them
    try:
        return _properties(yaml.load(path.read_bytes(), Loader=loader))  # noqa: S506  (BaseLoader builds no objects)
    except (yaml.YAMLError, ValueError) as e:
        raise InvalidInput(
            "This PyIceberg configuration is empty or not valid YAML.", where=str(path), hint="Correct or remove it."
        ) from e


def _properties(value: object) -> dict[str, PropertyValue]:
    """Check the shape, and write keys in lower case as PyIceberg does."""
    if not isinstance(value, dict):
        raise ValueError("not a mapping")
    return {str(k).lower(): v if isinstance(v, str) else _properties(v) for k, v in value.items()}


def _mask(key: str, value: PropertyValue) -> PropertyValue:
    if isinstance(value, Mapping):
        return {k: _mask(f"{key}.{k}", v) for k, v in value.items()}
    if re.search(_SENSITIVE_KEY, key):
        return MASK
    return re.sub(_SENSITIVE_PARAMETER, rf"\1={MASK}", re.sub(_USERINFO, f"{MASK}@", str(value)))
