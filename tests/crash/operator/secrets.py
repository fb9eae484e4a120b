"""Look for a secret in whatever was written: in texts, and in what is packed into them."""

from __future__ import annotations

import base64
import binascii
import gzip
import re
from collections.abc import Iterable, Iterator

from tests.proxy import Recorded

_PACKED = re.compile(rb"[A-Za-z0-9+/=]{40,}")


def texts(data: bytes) -> Iterator[bytes]:
    """Give a text, and every text that lies in it as base64, compressed or not."""
    yield data
    for match in _PACKED.finditer(data):
        try:
            inner = base64.b64decode(match.group(), validate=True)
        except (binascii.Error, ValueError):
            continue
        yield from texts(gzip.decompress(inner) if inner.startswith(b"\x1f\x8b") else inner)


def holds(secret: str, data: bytes) -> bool:
    """Say whether a secret lies in a text, however it is packed."""
    return any(secret.encode() in text for text in texts(data))


def written(requests: Iterable[Recorded]) -> Iterator[bytes]:
    """Give all that was sent to be kept: paths and bodies, not who sent it."""
    for request in requests:
        if request.method not in ("GET", "HEAD"):
            yield request.path.encode() + b"\n" + request.body
