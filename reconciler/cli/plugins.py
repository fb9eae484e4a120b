"""Spare pydantic its search for plugins, which imports `importlib.metadata` and, with it, the e-mail parser."""

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from types import ModuleType

VARIABLE = "PYDANTIC_DISABLE_PLUGINS"
EVERY = "__all__"
_METADATA = "importlib.metadata"
_LOADER = "pydantic.plugin._loader"


def skip_search() -> None:
    """Import pydantic's loader of plugins without what it would search with, where plugins are disabled anyway."""
    if _LOADER in sys.modules or _METADATA in sys.modules or os.environ.get(VARIABLE) != EVERY:
        return
    stand_in = ModuleType(_METADATA)
    stand_in.entry_points = _nothing  # type: ignore[attr-defined]
    sys.modules[_METADATA] = stand_in
    try:
        with suppress(ImportError):  # it may move
            import_module(_LOADER)
    finally:
        del sys.modules[_METADATA]


def _nothing(**_: str) -> Iterable[object]:
    return ()
