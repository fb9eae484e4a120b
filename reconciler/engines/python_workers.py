"""How Spark's Python processes beside its JVM are started, and what both talk over."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

_PATH_BYTES = 107  # of a socket's path, by Linux's unix(7); other systems have a few less
_NAME_BYTES = len("/.01234567-0123-4567-89ab-0123456789ab.sock") + 4


def unix_sockets() -> dict[str, str]:
    """Return the settings for sockets in a folder of this process's own; none where its path would be too long.

    They cost less than TCP on the loopback interface. Spark asks for no secret there, so the folder is closed to all
    others.
    """
    folder = Path(tempfile.mkdtemp(prefix="laketable-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if len(bytes(folder)) + _NAME_BYTES > _PATH_BYTES:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": str(folder)}
