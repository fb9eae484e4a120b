"""A PyIceberg FileIO that reads and writes local files itself: a commit to the embedded catalog is one small file.

PyIceberg's own import Arrow and pandas, or requests and its REST client, which is most of such a commit's time; they
still serve a table that lies elsewhere. PyIceberg makes it by name, see `metastore.load_pyiceberg`.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from pyiceberg.io import PY_IO_IMPL, FileIO, InputFile, InputStream, OutputFile, OutputStream, load_file_io

from reconciler.catalogs.fast_sql import local_path


class LocalFile(InputFile, OutputFile):
    """One local file, to read or to write."""

    def __init__(self, location: str, path: str) -> None:
        super().__init__(location)
        self._path = Path(path)

    def __len__(self) -> int:
        return self._path.stat().st_size

    def exists(self) -> bool:
        """Whether the file is there."""
        return self._path.exists()

    def open(self, seekable: bool = True) -> InputStream:
        """Open it for reading."""
        return cast("InputStream", self._path.open("rb"))

    def to_input_file(self) -> LocalFile:
        """Return the same file for reading."""
        return self

    def create(self, overwrite: bool = False) -> OutputStream:
        """Open it for writing, its folder made; without `overwrite` a file that is there is an error."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return cast("OutputStream", self._path.open("wb" if overwrite else "xb"))


class LocalFileIO(FileIO):
    """Local files directly, all others through PyIceberg's own choice."""

    def new_input(self, location: str) -> InputFile:
        """Return a file to read."""
        path = local_path(location)
        return LocalFile(location, path) if path else self._elsewhere(location).new_input(location)

    def new_output(self, location: str) -> OutputFile:
        """Return a file to write."""
        path = local_path(location)
        return LocalFile(location, path) if path else self._elsewhere(location).new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove a file."""
        place = location if isinstance(location, str) else location.location
        path = local_path(place)
        if path:
            Path(path).unlink()
        else:
            self._elsewhere(place).delete(place)

    def _elsewhere(self, location: str) -> FileIO:
        return load_file_io({k: v for k, v in self.properties.items() if k != PY_IO_IMPL}, location)
