"""Differences between two schemas, by field id, sorted into the phases of `diff`.

Equal subtrees are skipped by one comparison in C. Moves are minimal: the longest run of fields that is already in order
stays. A name that somebody still holds is freed first, through a temporary name where two columns swap theirs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from reconciler.diff.changes import (
    AddColumn,
    AlterColumnDefault,
    AlterColumnDoc,
    AlterColumnRequired,
    AlterColumnType,
    DropColumn,
    MoveColumn,
    RenameColumn,
)
from reconciler.model.types import Field, FieldPath, StructType, Type, fields_of

Expansion = AddColumn | MoveColumn | AlterColumnType | AlterColumnDoc | AlterColumnDefault


class SchemaDiff:
    """The column changes of one table, one list per phase; paths fit when the phases run in this order."""

    def __init__(self) -> None:
        self.renames: list[RenameColumn] = []
        self.expansions: list[Expansion] = []
        self.tightenings: list[AlterColumnRequired] = []
        self.relaxations: list[AlterColumnRequired] = []
        self.drops: list[DropColumn] = []

    @classmethod
    def between(cls, current: StructType, target: StructType) -> SchemaDiff:
        """Compare two schemas."""
        found = cls()
        if current is not target and current != target:
            found._siblings((), current.fields, target.fields)
        return found

    def _siblings(self, parent: FieldPath, current: Sequence[Field], target: Sequence[Field]) -> None:
        """Compare the fields of one struct; `parent` is its final path, as parents are renamed first."""
        before = {field.id: field for field in current}
        wanted = {field.id for field in target}
        names = {field.id: field.name for field in current}
        for field_id, name, to in rename_steps(current, target):
            self.renames.append(RenameColumn(path=(*parent, name), field_id=field_id, to=to))
            names[field_id] = to
        staying = longest_run([field.id for field in current if field.id in wanted], [field.id for field in target])
        previous: str | None = None
        for field in target:
            live = before.get(field.id)
            if live is None:
                self.expansions.append(AddColumn(parent=parent, field=field, after=previous))
            else:
                path = (*parent, field.name)
                if field.id not in staying:
                    self.expansions.append(MoveColumn(path=path, field_id=field.id, after=previous))
                if live is not field and live != field:
                    self._field(path, live, field)
            previous = field.name
        for field in current:
            if field.id not in wanted:
                path = (*parent, names[field.id])
                self.drops.append(DropColumn(path=path, field_id=field.id, type=field.type))

    def _field(self, path: FieldPath, current: Field, target: Field) -> None:
        """Compare two versions of one field, its name and place aside."""
        id_ = current.id
        if current.type != target.type:
            self._type(path, id_, current.type, target.type)
        if (current.doc or None) != (target.doc or None):
            self.expansions.append(AlterColumnDoc(path=path, field_id=id_, before=current.doc, after=target.doc))
        if current.write_default != target.write_default:
            self.expansions.append(
                AlterColumnDefault(path=path, field_id=id_, before=current.write_default, after=target.write_default)
            )
        if current.required != target.required:
            phase = self.tightenings if target.required else self.relaxations
            phase.append(AlterColumnRequired(path=path, field_id=id_, required=target.required))

    def _type(self, path: FieldPath, field_id: int, current: Type, target: Type) -> None:
        match current, target:
            case StructType(), StructType():
                self._siblings(path, current.fields, target.fields)
            case _ if has_same_frame(current, target):
                for before, after in zip(fields_of(current), fields_of(target), strict=True):
                    if before != after:
                        self._field((*path, after.name), before, after)
            case _:
                self.expansions.append(AlterColumnType(path=path, field_id=field_id, before=current, after=target))


def has_same_frame(current: Type, target: Type) -> bool:
    """Whether both are lists, or both maps, over the same element, key and value ids."""
    if isinstance(current, str | StructType) or type(current) is not type(target):
        return False
    return [field.id for field in fields_of(current)] == [field.id for field in fields_of(target)]


def longest_run(current: Sequence[int], target: Sequence[int]) -> set[int]:
    """Return the ids that need not move: the longest increasing subsequence of target places, in current order."""
    places = {id_: place for place, id_ in enumerate(target)}
    order = [places[id_] for id_ in current]
    if all(one < next_ for one, next_ in pairwise(order)):
        return set(current)
    tails: list[int] = []
    tail_indexes: list[int] = []
    previous: list[int] = []
    for index, place in enumerate(order):
        length = bisect_left(tails, place)
        previous.append(tail_indexes[length - 1] if length else -1)
        tails[length : length + 1] = [place]
        tail_indexes[length : length + 1] = [index]
    run: set[int] = set()
    index = tail_indexes[-1]
    while index >= 0:
        run.add(current[index])
        index = previous[index]
    return run


def rename_steps(current: Sequence[Field], target: Sequence[Field]) -> Iterator[tuple[int, str, str]]:
    """Yield (field id, name, new name), so ordered that no two siblings ever share a name.

    A field steps aside under a temporary name when its own is wanted before it can go: swapped names, and the name of
    a dropped field that another one takes over (drops come last).
    """
    final = {field.id: field.name for field in target}
    live = {field.id: field.name for field in current}
    if live == final:
        return
    names = _Names(current, target)
    for id_, name in live.items():
        if id_ not in final and name in names.wanted:
            yield names.give(id_, names.aside(id_))
    pending = [id_ for id_, name in final.items() if id_ in live and live[id_] != name]
    for id_ in pending:
        yield from names.settle(id_, final)
    for id_ in pending:  # only cycles are left: one of each steps aside, the others follow
        if names.of[id_] != final[id_]:
            freed = names.of[id_]
            yield names.give(id_, names.aside(id_))
            yield from names.settle(names.wanted[freed], final)


class _Names:
    """Who holds which name while siblings are renamed one by one."""

    def __init__(self, current: Sequence[Field], target: Sequence[Field]) -> None:
        self.of = {field.id: field.name for field in current}
        self.holder = {field.name: field.id for field in current}
        self.wanted = {field.name: field.id for field in target}

    def give(self, id_: int, to: str) -> tuple[int, str, str]:
        """Rename one field."""
        name = self.of[id_]
        del self.holder[name]
        self.holder[to] = id_
        self.of[id_] = to
        return id_, name, to

    def settle(self, id_: int, final: Mapping[int, str]) -> Iterator[tuple[int, str, str]]:
        """Rename a field if its name is free, then the one that waited for the name it left, and so on."""
        while id_ in self.of and self.of[id_] != final[id_] and final[id_] not in self.holder:
            step = self.give(id_, final[id_])
            yield step
            id_ = self.wanted.get(step[1], 0)

    def aside(self, id_: int) -> str:
        """Name a field for the moment; nobody has or wants the name."""
        name = f"laketable_tmp_{id_}"
        while name in self.holder or name in self.wanted:
            name += "_"
        return name
