"""Which table properties a manifest may set: the reserved and the dangerous ones are refused with a reason.

Whoever may edit a manifest must not gain code execution (`*.impl`), another storage location (`*.path`), another key
(`encryption.*`) or a say in LakeTable's own memory (`laketable.*`). Called by the manifest checks and by import.
"""

from __future__ import annotations

import re

from reconciler.model.column_keys import PER_COLUMN

COMMENT = "comment"
DISTRIBUTION_MODE = "write.distribution-mode"

_RESERVED = {
    "format-version": "Use spec.formatVersion.",
    "uuid": "The catalog sets it.",
    "current-schema": "Iceberg derives it from spec.columns.",
    "current-snapshot-id": "Iceberg keeps it.",
    "current-snapshot-summary": "Iceberg keeps it.",
    "current-snapshot-timestamp-ms": "Iceberg keeps it.",
    "snapshot-count": "Iceberg keeps it.",
    "default-partition-spec": "Use spec.partitioning.",
    "default-sort-order": "Use spec.sortOrder.",
    "sort-order": "Use spec.sortOrder.",
    "identifier-fields": "Use spec.identifierFields.",
    "schema.name-mapping.default": "Iceberg keeps it in step with renames.",
    "location": "Use spec.location.",
    "format": "Use spec.format.",
    "provider": "Use spec.format.",
    "owner": "Spark reserves it; use a Kubernetes label or another key.",
    "external": "Spark reserves it.",
    "is_managed_location": "Spark reserves it.",
}
_DANGEROUS = (
    (r"laketable(\..*)?", "it is LakeTable's own memory", ""),
    (r".*[.-](impl|class|classname|factory)", "it names code to load", ""),
    (r"(.*[.-])?(path|location|uri|url|dir)", "it moves files elsewhere", "Use spec.location."),
    (r".*(encryption|kms).*", "it changes how files are encrypted", ""),
    (r"(.*[.-])?jars?([.-].*)?", "it loads code", ""),
    (r"(spark|hadoop|fs|hive|s3|gcs|adls|client|io|jdbc|py-.*)\..*", "it configures a client", ""),
    (
        r".*(password|passwd|secret|credential|token|access-key|account-key|private-key).*",
        "it looks like a secret, and table properties are readable by everybody",
        "Put secrets into the Secret that the LakeCatalog names.",
    ),
)
_VALID_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_SUSPICIOUS = re.compile(
    r"laketable|impl|class|factory|path|location|ur[il]|dir|encrypt|kms|jar|pass|secret|credential|token|-key"
    r"|^(?:spark|hadoop|fs|hive|s3|gcs|adls|client|io|jdbc|py-)"
)

_CHECKED_PREFIXES = ("write.", "read.", "commit.", "history.", "gc.", "compatibility.", "schema.")
KNOWN_KEYS = (
    "write.format.default",
    "write.delete.format.default",
    "write.parquet.row-group-size-bytes",
    "write.parquet.page-size-bytes",
    "write.parquet.page-row-limit",
    "write.parquet.dict-size-bytes",
    "write.parquet.compression-codec",
    "write.parquet.compression-level",
    "write.parquet.page-version",
    "write.parquet.bloom-filter-max-bytes",
    "write.parquet.row-group-check-min-record-count",
    "write.parquet.row-group-check-max-record-count",
    "write.delete.parquet.compression-codec",
    "write.delete.parquet.compression-level",
    "write.avro.compression-codec",
    "write.avro.compression-level",
    "write.orc.stripe-size-bytes",
    "write.orc.block-size-bytes",
    "write.orc.compression-codec",
    "write.orc.compression-strategy",
    "write.orc.bloom.filter.columns",
    "write.orc.bloom.filter.fpp",
    "write.metadata.compression-codec",
    "write.metadata.metrics.max-inferred-column-defaults",
    "write.metadata.metrics.default",
    "write.metadata.delete-after-commit.enabled",
    "write.metadata.previous-versions-max",
    "write.target-file-size-bytes",
    "write.delete.target-file-size-bytes",
    "write.distribution-mode",
    "write.delete.distribution-mode",
    "write.update.distribution-mode",
    "write.merge.distribution-mode",
    "write.delete.mode",
    "write.update.mode",
    "write.merge.mode",
    "write.delete.isolation-level",
    "write.update.isolation-level",
    "write.merge.isolation-level",
    "write.delete.granularity",
    "write.object-storage.enabled",
    "write.object-storage.partitioned-paths",
    "write.data.partition-columns",
    "write.wap.enabled",
    "write.summary.partition-limit",
    "write.manifest-lists.enabled",
    "write.spark.fanout.enabled",
    "write.spark.accept-any-schema",
    "write.spark.advisory-partition-size-bytes",
    "write.upsert.enabled",
    "read.split.target-size",
    "read.split.metadata-target-size",
    "read.split.planning-lookback",
    "read.split.open-file-cost",
    "read.split.adaptive-size.enabled",
    "read.parquet.vectorization.enabled",
    "read.parquet.vectorization.batch-size",
    "read.orc.vectorization.enabled",
    "read.orc.vectorization.batch-size",
    "commit.retry.num-retries",
    "commit.retry.min-wait-ms",
    "commit.retry.max-wait-ms",
    "commit.retry.total-timeout-ms",
    "commit.status-check.num-retries",
    "commit.status-check.min-wait-ms",
    "commit.status-check.max-wait-ms",
    "commit.status-check.total-timeout-ms",
    "commit.manifest.target-size-bytes",
    "commit.manifest.min-count-to-merge",
    "commit.manifest-merge.enabled",
    "history.expire.max-snapshot-age-ms",
    "history.expire.min-snapshots-to-keep",
    "history.expire.max-ref-age-ms",
    "gc.enabled",
    "compatibility.snapshot-id-inheritance.enabled",
)
_KNOWN = frozenset(KNOWN_KEYS)


_CODE_KEY = r".*[.-](impl|class|classname|factory|provider)|jars?([.-].*)?"
_SENSITIVE_KEY = (
    r".*(password|passwd|secret|credential|token|access-key|account-key|connection-string|private-key|passphrase).*"
    r"|.*sas.*"
)


CONNECT_TOKEN = "spark-connect-token"  # noqa: S105
"""The key of a LakeCatalog's Secret that is none of its catalog's: what its Spark Connect server wants to be told."""


def loads_code(key: str) -> bool:
    """Tell whether a catalog property names code to load."""
    return re.fullmatch(_CODE_KEY, key.lower()) is not None


def is_secret_key(key: str) -> bool:
    """Tell whether a catalog property's value must not be seen."""
    return re.fullmatch(_SENSITIVE_KEY, key.lower()) is not None


def refusal(key: str) -> tuple[str, str] | None:
    """Return why a manifest may not set `key` and what to do instead, None when it may."""
    if key in _KNOWN:
        return None
    if not _VALID_KEY.fullmatch(key):
        return "a property key is 1 to 255 printable ASCII characters without spaces", ""
    if key.startswith(PER_COLUMN):
        return None
    folded = key.lower()
    if folded in _RESERVED:
        return "it is reserved", _RESERVED[folded]
    if _SUSPICIOUS.search(folded):
        for pattern, reason, hint in _DANGEROUS:
            if re.fullmatch(pattern, folded):
                return reason, hint
    return _misspelling(key) if key.startswith(_CHECKED_PREFIXES) else None


def _misspelling(key: str) -> tuple[str, str] | None:
    """A key of Iceberg's own families that is one slip away from a known one would silently do nothing."""
    from reconciler.model.suggestions import did_you_mean

    hint = did_you_mean(key, (*KNOWN_KEYS, *PER_COLUMN), cutoff=0.93)
    return ("Iceberg knows no such key", hint) if hint else None
