"""The laws of binding, diffing and applying, on random nested tables; each has a control that a planted fault fails.

"Equal up to provisional ids" is exact: there is a one-to-one map from the target's negative ids to ids above the
table's last field id, 1 above it being the first new field in the order of the AddColumn changes; the target with that
map applied (schema, identifier fields, partition and sort sources) equals the applied spec in every part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

import reconciler.diff.apply_columns
import reconciler.diff.bind_columns
import reconciler.diff.schema
from reconciler.diff.apply import apply
from reconciler.diff.bind import bind
from reconciler.diff.changes import AddColumn, Change, DropColumn, RenameColumn
from reconciler.diff.diff import diff
from reconciler.diff.problems import ProblemKind
from reconciler.model.bookkeeping import Bookkeeping, managed_after, read, write
from reconciler.model.table import Desired, Observed, TableSpec, TableVersion
from reconciler.model.types import Field, StructType, Type, fields_of, walk, with_fields
from tests.laws.strategies import evolved, ids_below, managed_ids, manifests, specs, unbound

LAST_ID = 1000
LAW = settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    database=None,
    # Shrinking nested schemas takes minutes; a failing example is readable as it is.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


# ---------------------------------------------------------------- equality up to provisional ids


def provisional_pairs(target: Type, applied: Type) -> Iterator[tuple[int, int]]:
    """Pair the ids of two schemas of one shape, place by place."""
    ours, theirs = fields_of(target), fields_of(applied)
    assert len(ours) == len(theirs)
    for field, other in zip(ours, theirs, strict=True):
        yield field.id, other.id
        yield from provisional_pairs(field.type, other.type)


def with_ids(type_: Type, ids: dict[int, int]) -> Type:
    fields = tuple(
        msgspec.structs.replace(f, id=ids.get(f.id, f.id), type=with_ids(f.type, ids)) for f in fields_of(type_)
    )
    return with_fields(type_, fields) if fields else type_


def settled(target: TableSpec, applied: TableSpec) -> TableSpec:
    """Return `target` with the ids that its new fields got; fail unless they are new and handed out without a gap."""
    ids = {old: new for old, new in provisional_pairs(target.schema, applied.schema) if old < 0}
    assert sorted(ids.values()) == list(range(LAST_ID + 1, LAST_ID + 1 + len(ids)))
    schema = with_ids(target.schema, ids)
    assert isinstance(schema, StructType)
    return msgspec.structs.replace(
        target,
        schema=schema,
        identifier_field_ids=frozenset(ids.get(i, i) for i in target.identifier_field_ids),
        partitioning=tuple(
            msgspec.structs.replace(f, source_id=ids.get(f.source_id, f.source_id)) for f in target.partitioning
        ),
        sort_order=tuple(
            msgspec.structs.replace(f, source_id=ids.get(f.source_id, f.source_id)) for f in target.sort_order
        ),
    )


def assert_valid(spec: TableSpec) -> None:
    """Fail unless siblings have unique names, ids are unique, and the layout refers to what is there."""
    ids = ids_below(spec.schema)
    assert len(set(ids)) == len(ids)
    for _, field in (((), Field(name="", required=True, type=spec.schema)), *walk(spec.schema)):
        names = [child.name for child in fields_of(field.type)]
        assert len(set(names)) == len(names)
    used = {f.source_id for f in spec.partitioning if f.transform != "void"} | {f.source_id for f in spec.sort_order}
    assert (used | spec.identifier_field_ids) <= set(ids)


# ---------------------------------------------------------------- laws of diff and apply


def check_round_trip(current: TableSpec, target: TableSpec) -> None:
    applied = apply(current, diff(current, target), last_field_id=LAST_ID)
    assert applied == settled(target, applied)
    assert diff(applied, settled(target, applied)) == ()


def check_prefixes(current: TableSpec, target: TableSpec) -> None:
    changes = diff(current, target)
    for length in range(len(changes) + 1):
        assert_valid(apply(current, changes[:length], last_field_id=LAST_ID))


def check_identity(current: TableSpec, target: TableSpec) -> None:
    """Renames keep ids; only an id that the other side lacks is added or dropped."""
    before, after = set(ids_below(current.schema)), set(ids_below(target.schema))
    for change in diff(current, target):
        match change:
            case AddColumn():
                assert change.field.id not in before
            case DropColumn():
                assert change.field_id not in after
            case RenameColumn():
                assert change.field_id in before


@LAW
@given(specs())
def test_a_spec_does_not_differ_from_itself(spec: TableSpec) -> None:
    copy = msgspec.json.decode(msgspec.json.encode(spec), type=TableSpec)
    assert diff(spec, spec) == ()
    assert diff(spec, copy) == ()


@LAW
@given(st.data())
def test_applying_the_difference_gives_the_target(data: st.DataObject) -> None:
    current = data.draw(specs())
    check_round_trip(current, data.draw(evolved(current)))


@LAW
@given(st.data())
def test_every_prefix_is_a_valid_table(data: st.DataObject) -> None:
    current = data.draw(specs())
    check_prefixes(current, data.draw(evolved(current)))


@LAW
@given(st.data())
def test_drop_and_add_never_stand_for_a_rename(data: st.DataObject) -> None:
    current = data.draw(specs())
    check_identity(current, data.draw(evolved(current)))


@LAW
@given(st.data())
def test_diffing_again_after_any_prefix_arrives(data: st.DataObject) -> None:
    current = data.draw(specs())
    target = data.draw(evolved(current))
    changes = diff(current, target)
    whole = settled(target, apply(current, changes, last_field_id=LAST_ID))
    for length in range(len(changes) + 1):
        # What was added so far has its final id; what is still to come is restored under its own.
        part = apply(current, changes[:length], last_field_id=LAST_ID)
        assert apply(part, diff(part, whole), last_field_id=LAST_ID) == whole


@LAW
@given(st.data())
def test_undo_brings_ids_back(data: st.DataObject) -> None:
    current = data.draw(specs())
    changes = diff(current, data.draw(evolved(current)))
    applied = apply(current, changes, last_field_id=LAST_ID)
    assert apply(applied, diff(applied, current), last_field_id=2 * LAST_ID) == current


@LAW
@given(st.data())
def test_moves_are_minimal(data: st.DataObject) -> None:
    ids = list(range(data.draw(st.integers(1, 7))))
    wanted = data.draw(st.permutations(ids))
    staying = reconciler.diff.schema.longest_run(ids, wanted)
    assert [id_ for id_ in wanted if id_ in staying] == sorted(staying)
    best = max(
        bin(mask).count("1")
        for mask in range(2 ** len(ids))
        if [i for i in wanted if mask >> i & 1] == [i for i in ids if mask >> i & 1]
    )
    assert len(staying) == best


# ---------------------------------------------------------------- laws of bind


def observe(spec: TableSpec, memory: Bookkeeping, last_field_id: int = LAST_ID) -> Observed:
    version = TableVersion(uuid="u", schema_id=0, spec_id=0, sort_order_id=0, last_field_id=last_field_id)
    return Observed(spec=spec, version=version, bookkeeping=write(memory))


def planned(desired: Desired, current: Observed) -> tuple[TableSpec, tuple[Change, ...]]:
    target = bind(desired, current, now_ms=0).spec
    return target, diff(current.spec, target)


def step(desired: Desired, current: Observed, length: int | None = None) -> Observed:
    """Plan, and apply the first `length` changes (None: all), memory included as the pipeline writes it."""
    _, changes = planned(desired, current)
    after = apply(current.spec, changes[:length], last_field_id=current.version.last_field_id)
    memory = managed_after(desired, after, read(current.bookkeeping), now_ms=0)
    return observe(after, memory, max(current.version.last_field_id, *ids_below(after.schema)))


def draw_case(data: st.DataObject) -> tuple[Desired, Observed]:
    live = data.draw(specs())
    memory = Bookkeeping(owner="laws", columns=data.draw(managed_ids(live)), properties=frozenset({"k1", "k2"}))
    return data.draw(manifests(live)), observe(live, memory)


def check_idempotence(desired: Desired, current: Observed) -> None:
    done = step(desired, current)
    assert planned(desired, done)[1] == ()
    again = managed_after(desired, done.spec, read(done.bookkeeping), now_ms=0)
    assert again == read(done.bookkeeping)


@LAW
@given(specs())
def test_a_manifest_of_all_there_is_changes_nothing(spec: TableSpec) -> None:
    desired = Desired(ident=spec.ident, owner="laws", columns=unbound(spec.schema), properties=spec.properties)
    current = observe(spec, Bookkeeping(columns=frozenset(ids_below(spec.schema))))
    binding = bind(desired, current, now_ms=0)
    assert binding.problems == ()
    assert binding.spec == spec


@LAW
@given(st.data())
def test_after_applying_there_is_nothing_to_do(data: st.DataObject) -> None:
    check_idempotence(*draw_case(data))


@LAW
@given(st.data())
def test_binding_again_after_any_prefix_arrives(data: st.DataObject) -> None:
    desired, current = draw_case(data)
    whole = step(desired, current)
    _, changes = planned(desired, current)
    for length in range(len(changes)):
        part = step(desired, current, length)
        assert_valid(part.spec)
        arrived = step(desired, part)
        assert names_and_types(arrived.spec) == names_and_types(whole.spec)
        assert planned(desired, arrived)[1] == ()


def names_and_types(spec: TableSpec) -> TableSpec:
    """Forget which ids new fields got, and the order of siblings.

    An interrupted run may number new fields in another order, and an unmanaged field stays behind whatever stands
    before it by then; that the order is what the manifest says is shown by the empty plan afterwards.
    """
    new = {id_: -1 for id_ in ids_below(spec.schema) if id_ > LAST_ID}
    schema = sorted_fields(with_ids(spec.schema, new))
    assert isinstance(schema, StructType)
    return msgspec.structs.replace(
        spec,
        schema=schema,
        identifier_field_ids=frozenset(new.get(i, i) for i in spec.identifier_field_ids),
        partitioning=tuple(
            msgspec.structs.replace(f, source_id=new.get(f.source_id, f.source_id)) for f in spec.partitioning
        ),
        sort_order=tuple(
            msgspec.structs.replace(f, source_id=new.get(f.source_id, f.source_id)) for f in spec.sort_order
        ),
    )


def sorted_fields(type_: Type) -> Type:
    fields = [msgspec.structs.replace(f, type=sorted_fields(f.type)) for f in fields_of(type_)]
    return with_fields(type_, tuple(sorted(fields, key=lambda f: f.name))) if fields else type_


@LAW
@given(st.data())
def test_binding_never_invents_or_reuses_an_id(data: st.DataObject) -> None:
    desired, current = draw_case(data)
    binding = bind(desired, current, now_ms=0)
    bound, live = ids_below(binding.spec.schema), set(ids_below(current.spec.schema))
    assert len(set(bound)) == len(bound)
    assert all(id_ in live or id_ < 0 for id_ in bound)
    assert_valid(binding.spec)


@LAW
@given(st.data())
def test_a_declared_rename_keeps_its_id(data: st.DataObject) -> None:
    desired, current = draw_case(data)
    binding = bind(desired, current, now_ms=0)
    assume(not any(p.kind is ProblemKind.RENAME_AMBIGUOUS for p in binding.problems))
    top = {f.name: f.id for f in current.spec.schema.fields}
    bound = {f.name: f.id for f in binding.spec.schema.fields}
    for (name, *below), former in desired.column_renames.items():
        if not below and name not in top:
            assert bound[name] == top[former]


@LAW
@given(st.data())
def test_what_nobody_managed_is_kept_unless_the_policy_drops_it(data: st.DataObject) -> None:
    check_unmanaged(*draw_case(data))


def check_unmanaged(desired: Desired, current: Observed) -> None:
    kept = set(ids_below(bind(desired, current, now_ms=0).spec.schema))
    memory = read(current.bookkeeping).columns
    for path, field in walk(current.spec.schema):
        lost = field.id not in kept
        parents = [f.id for p, f in walk(current.spec.schema) if path[: len(p)] == p]
        if lost and desired.unmanaged_columns != "Drop":
            assert memory.intersection(parents)


# ---------------------------------------------------------------- controls: a planted fault fails the law


def breaks(law: Callable[[TableSpec, TableSpec], None]) -> None:
    """Find an example that fails the law, or fail."""

    @LAW
    @given(st.data())
    def search(data: st.DataObject) -> None:
        current = data.draw(specs())
        law(current, data.draw(evolved(current)))

    with pytest.raises((AssertionError, ValueError, ExceptionGroup)):
        search()


def breaks_binding(law: Callable[[Desired, Observed], None]) -> None:
    """Find an example that fails a law of bind, or fail."""

    @LAW
    @given(st.data())
    def search(data: st.DataObject) -> None:
        law(*draw_case(data))

    with pytest.raises((AssertionError, ValueError, ExceptionGroup)):
        search()


def test_control_a_move_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciler.diff.schema, "longest_run", lambda current, target: set(current))
    breaks(check_round_trip)


def test_control_renames_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(current: Sequence[Field], target: Sequence[Field]) -> Iterator[tuple[int, str, str]]:
        names = {f.id: f.name for f in current}
        yield from ((f.id, names[f.id], f.name) for f in target if f.id in names and names[f.id] != f.name)

    monkeypatch.setattr(reconciler.diff.schema, "rename_steps", careless)
    breaks(check_prefixes)


def test_control_new_fields_without_ids_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciler.diff.apply_columns.Columns, "_next_id", lambda self: 1)
    breaks(check_round_trip)


def test_control_comparing_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    between = reconciler.diff.schema.SchemaDiff.between

    def by_name(current: StructType, target: StructType) -> reconciler.diff.schema.SchemaDiff:
        known = {f.name for f in current.fields}
        fields = (
            f if f.name in known else msgspec.structs.replace(f, id=-500 - n) for n, f in enumerate(target.fields)
        )
        return between(current, StructType(tuple(fields)))

    monkeypatch.setattr(reconciler.diff.schema.SchemaDiff, "between", by_name)
    breaks(check_identity)


def test_control_bind_ignores_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciler.diff.bind_columns._ColumnBinder, "_is_kept", lambda self, prefix, live: False)
    breaks_binding(check_unmanaged)


def test_control_bind_numbers_known_columns_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(*args: object) -> tuple[dict[str, str], list[object]]:
        return {}, []

    monkeypatch.setattr(reconciler.diff.bind_columns, "claim_live_names", forgetful)
    monkeypatch.setattr(reconciler.diff.bind_columns._ColumnBinder, "_case_clashes", lambda *args: {})
    breaks_binding(check_idempotence)
