"""What all manifests share: the strict base model, metadata, references, reused field types."""

# Annotations are evaluated here: pydantic would compile each one a second time from its text.
import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from reconciler.model.quantities import DURATION_PATTERN, SIZE_PATTERN

GROUP = "laketable.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
DEFAULT_NAMESPACE = "default"

LABEL_PATTERN = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
NAMESPACE_PATTERN = r"^(\*|[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)$"
CODE_PATTERN = r"^LK[1-9][0-9]{2}$"
HASH_PATTERN = r"^sha256:[0-9a-f]{64}$"
UUID_PATTERN = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
CLOCK_PATTERN = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"
ZONE_PATTERN = r"^[A-Za-z][A-Za-z0-9_+/-]*$"
MEMORY_PATTERN = r"^[1-9][0-9]*(Mi|Gi|m|g)$"
CONNECT_PATTERN = r"^sc://[^ ]+$"
PASSWORD_IN_URL = re.compile(r"://[^/@\s]*:[^/@\s]*@")

Duration = Annotated[str, Field(pattern=DURATION_PATTERN, max_length=32)]
Size = Annotated[str, Field(pattern=SIZE_PATTERN, max_length=32)]
Label = Annotated[str, Field(pattern=LABEL_PATTERN)]
Code = Annotated[str, Field(pattern=CODE_PATTERN)]
Text = Annotated[str, Field(min_length=1, max_length=1024)]
Name = Annotated[str, Field(min_length=1, max_length=255)]
FormatName = Literal["iceberg", "lance", "delta", "paimon"]
ClassName = Literal["metadata-only", "audit", "rewrite", "destructive"]


class Model(BaseModel):
    """Strict: no unknown keys, no conversions, camelCase on the outside, immutable; errors repeat no value."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        validate_by_alias=True,
        serialize_by_alias=True,
        hide_input_in_errors=True,
        defer_build=True,
    )

    def states(self, name: str) -> bool:
        """Say whether a field is written down, be it as null."""
        return name in self.__pydantic_fields_set__


class Metadata(Model):
    """A resource's identity; what the API server adds is dropped before it gets here."""

    name: Annotated[Label, Field(description="The resource's name: lower-case letters, digits and '-', at most 63.")]
    namespace: Annotated[Label, Field(description="The Kubernetes namespace.")] = DEFAULT_NAMESPACE
    uid: Annotated[str | None, Field(description="Set by Kubernetes.")] = None
    labels: Annotated[dict[str, str] | None, Field(description="Labels for people and selectors.")] = None
    annotations: Annotated[dict[str, str] | None, Field(description="Annotations.")] = None


class Reference(Model):
    """Another resource of a known kind."""

    name: Annotated[Label, Field(description="The resource's name.")]
    namespace: Annotated[Label | None, Field(description="Its namespace; by default this resource's own.")] = None
