"""The names people give to types: aliases that mean exactly one Iceberg type, and what to answer for all others."""

from __future__ import annotations

from reconciler.model import primitives

ALIASES = {
    "bigint": "long",
    "int64": "long",
    "integer": "int",
    "int32": "int",
    "bool": "boolean",
    "real": "float",
    "float32": "float",
    "float64": "double",
    "varchar": "string",
    "text": "string",
    "timestamp_ntz": "timestamp",
    "timestamp_ltz": "timestamptz",
    "numeric": "decimal",
    "dec": "decimal",
    "array": "list",
}
# names that mean several things, or lose something: never guessed, only answered
HINTS = {
    "tinyint": "Use 'int': Iceberg has no smaller integer.",
    "smallint": "Use 'int': Iceberg has no smaller integer.",
    "short": "Use 'int': Iceberg has no smaller integer.",
    "byte": "Use 'int': Iceberg has no smaller integer.",
    "int8": "Use 'int': Iceberg has no smaller integer.",
    "int16": "Use 'int': Iceberg has no smaller integer.",
    "char": "Use 'string': Iceberg keeps no lengths.",
    "str": "Did you mean 'string'?",
    "number": "Use 'decimal(P,S)', 'long' or 'double'.",
    "datetime": "Use 'timestamp' (no time zone) or 'timestamptz' (an instant).",
    "timestamp_tz": "Did you mean 'timestamptz'?",
    "timestampz": "Did you mean 'timestamptz'?",
    "bytes": "Did you mean 'binary'?",
    "bytea": "Did you mean 'binary'?",
    "blob": "Did you mean 'binary'?",
    "varbinary": "Did you mean 'binary'?",
    "json": "Use 'string', or 'variant' (format version 3).",
    "object": "Use 'struct<name: type, ...>'.",
    "record": "Use 'struct<name: type, ...>'.",
    "row": "Use 'struct<name: type, ...>'.",
    "dict": "Use 'map<key type, value type>'.",
    "null": "Use 'unknown' (format version 3).",
    "void": "Use 'unknown' (format version 3).",
    "interval": "Iceberg has no intervals; use 'long' and say the unit in the doc.",
    "enum": "Iceberg has no enumerations; use 'string'.",
}
KNOWN_TYPES = (
    "Iceberg's types are boolean, int, long, float, double, decimal(P,S), date, time, timestamp, timestamptz, string, "
    "uuid, fixed[L], binary, struct<...>, list<...>, map<...>."
)
ALL_NAMES = (*sorted(primitives.PLAIN_NAMES | primitives.PARAMETERISED_NAMES), "struct", "list", "map", *ALIASES)
