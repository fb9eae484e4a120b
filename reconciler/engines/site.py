"""What a kind of work may ask of the place it runs at.

There are two: a classic Spark session with Iceberg's Java API behind its gateway (`spark_site`), and a Spark Connect
server, which has no gateway, beside our own catalog (`connect_site`). Files are handed around as Iceberg's DataFile, or
as what answers like one (`catalog_files`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from reconciler.engines.data_files import Task
from reconciler.engines.data_progress import Tell
from reconciler.engines.data_state import TableFacts
from reconciler.engines.source_changes import SourceChange
from reconciler.errors import LakeError
from reconciler.model.metadata import MAIN
from reconciler.model.table import TableIdent
from reconciler.plan.operations import Backfill, Operation, SourceRead
from reconciler.ports import CommitOutcome, StagingRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class FilesMoved(Exception):
    """Somebody rewrote or deleted from a file that was to be replaced."""


class SnapshotKind(StrEnum):
    """What a commit tells changelog readers: values changed, or the same rows lie in other files."""

    OVERWRITE = "overwrite"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A snapshot to make: files in the place of others on a branch; without a base an empty one, to start from."""

    before: Sequence[Any]
    after: Sequence[Any]
    base: int | None
    stamps: Mapping[str, str]
    kind: SnapshotKind
    branch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A snapshot to make: main's small data manifests written together, unless there are less than two.

    `found` is told how many there are.
    """

    smaller_than: int
    stamps: Mapping[str, str]
    found: Callable[[int], None]


class Draft(Protocol):
    """One commit being put together on the facts it rests on; nobody sees anything of it before it is made.

    `made` is the id of the snapshot that was asked for with it.
    """

    facts: TableFacts
    made: int | None

    def place(self, branch: str) -> None:
        """Make the new snapshot a branch's head."""
        ...

    def set_main(self, snapshot_id: int) -> None:
        """Point main to a snapshot of a branch."""
        ...

    def remove_refs(self, names: Sequence[str]) -> None:
        """Remove branches and tags."""
        ...

    def forget(self, snapshot_ids: Sequence[int]) -> None:
        """Remove snapshots; `WorkTable.delete_forgotten` deletes what only they named, once it is committed."""
        ...

    def set_properties(self, values: Mapping[str, str]) -> None:
        """Set table properties."""
        ...


Build = Callable[[Draft], bool]
Start = Callable[[TableFacts], Change | Merge | None]
"""Say which snapshot a commit on these facts adds; None when it needs none."""


class WorkTable(Protocol):
    """A table being worked on by one operation."""

    ident: TableIdent

    def facts(self) -> TableFacts:
        """Read the metadata."""
        ...

    def require(self, facts: TableFacts, uuid: str, schema_id: int | None) -> None:
        """Raise CommitConflict unless it is still this table, with this schema."""
        ...

    def outcome(self, *, replayed: bool = False) -> CommitOutcome:
        """Describe the table as it is."""
        ...

    def create_branch(self, branch: str, snapshot_id: int, uuid: str, schema_id: int | None) -> None:
        """Make a branch; a no-op when somebody made it meanwhile."""
        ...

    def create_root_branch(self, branch: str, uuid: str, schema_id: int | None) -> None:
        """Make a branch of a table without snapshots: it starts from an empty one, so that main stays as it is."""
        ...

    def drop_branches(self, branches: Sequence[str], uuid: str) -> None:
        """Remove branches, as far as they are there, and what lies beside them for their writes."""
        ...

    def changed_files(self, snapshot_id: int) -> tuple[list[Any], list[Any]]:
        """Return the data files that a snapshot added, and those that it removed."""
        ...

    def listed_rows(self, snapshot_id: int) -> int | None:
        """Add up the live rows that a snapshot's list of manifests states; None: they are to be counted."""
        ...

    def swap(
        self,
        build: Build,
        start: Start | None = None,
        *,
        uuid: str,
        schema_id: int | None = None,
        refs: Sequence[str] = (MAIN,),
        reuse: bool = True,
    ) -> bool:
        """Commit what `build` puts into a draft, with the snapshot that `start` asks for.

        `build` says False when there is nothing (left) to do. Raises FilesMoved when a file to replace is no longer
        what it was in the base. Another writer's commit, or an outcome that nobody knows, starts it over on what the
        table is then: a commit that did land is found by `build`. The `refs` named are asserted. `reuse`: what was
        prepared for one try may be kept for the next.
        """
        ...

    def delete_forgotten(self) -> None:
        """Delete the files that only snapshots named which the last committed draft forgot."""
        ...

    def delete_file(self, path: str) -> None:
        """Delete one file of the table's storage."""
        ...

    def read_file(self, path: str) -> bytes:
        """Read one file of the table's storage."""
        ...


class Site(Protocol):
    """Where one operation works: a session of its own, the catalog's name in it, the table, the branch."""

    @property
    def session(self) -> SparkSession:
        """The session, whose settings are the operation's own."""
        ...

    @property
    def catalog(self) -> str:
        """The catalog's name in the session."""
        ...

    @property
    def table(self) -> WorkTable:
        """The table being worked on."""
        ...

    @property
    def operation(self) -> Operation:
        """What is to be done."""
        ...

    @property
    def ref(self) -> StagingRef:
        """Where the work lies until it is published."""
        ...

    @property
    def tell(self) -> Tell:
        """Who hears of progress."""
        ...

    @property
    def branch_place(self) -> str:
        """Name table and branch for a message."""
        ...

    def at(self, snapshot_id: int) -> DataFrame:
        """Read the table as of a snapshot."""
        ...

    def live(self, snapshot_id: int, wants: Callable[[Any], bool] = ...) -> list[Task]:
        """List a snapshot's files that hold rows and that `wants` picks: by spec, sort order, then path."""
        ...

    def staged(self, tasks: Sequence[Task]) -> AbstractContextManager[DataFrame]:
        """Read just these files of one snapshot, their deletes applied, under the table's schema of today."""
        ...

    def rewrite(
        self,
        tasks: Sequence[Task],
        make: Callable[[DataFrame], DataFrame],
        options: Mapping[str, str],
        *,
        is_whole: bool = False,
    ) -> list[Any]:
        """Write what becomes of these files' rows as new files; commit nothing.

        `is_whole`: one new file for each, also for one of several row groups, where the site can.
        """
        ...

    def append(self, frame: DataFrame, options: Mapping[str, str]) -> list[Any]:
        """Write rows as files of the table and return them; commit nothing."""
        ...

    def fill(self, tasks: Sequence[Task], backfill: Backfill, *, splices: bool) -> list[Any]:
        """Write successors of files with their values, each the cheapest way that there is here."""
        ...

    def without_filters(self, tasks: Sequence[Task], columns: Collection[int]) -> set[str]:
        """Return the paths of the files in which one of these columns has no bloom filter, nor needs one."""
        ...

    def partition_of(self, task: Task) -> str:
        """Return what tells a file's partition from all others of its spec."""
        ...

    def sources(self) -> Sources:
        """Open the tables that a view reads."""
        ...

    def told(self, error: Exception, *, committing: bool = False) -> LakeError:
        """Return what to raise for what Spark threw: never its words, for they may quote rows.

        While `committing`, whatever is not known to be a refusal leaves the outcome unknown.
        """
        ...


class Sources(Protocol):
    """The tables that a view reads, at their watermarks; closed when the rows are written."""

    def close(self) -> None:
        """Give back what is kept for them."""
        ...

    def changes(self, source: SourceRead) -> SourceChange:
        """Return what happened to a source since the last refresh; raises Unreadable."""
        ...

    def rows(self, source: SourceRead, part: Sequence[Any]) -> DataFrame:
        """Read one side of a change."""
        ...

    def pinned(self, source: SourceRead) -> DataFrame:
        """Read a source at its watermark, under its schema of today."""
        ...
