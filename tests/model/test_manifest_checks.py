"""Every refusal of a manifest: one line with its place; and the manifest that they all vary is accepted."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import InvalidInput, ManifestErrors
from reconciler.model.documents import load_documents
from reconciler.model.manifest import LakeTable

TABLE = """\
apiVersion: laketable.dev/v1alpha1
kind: LakeTable
metadata: {name: orders, namespace: sales}
spec:
  catalogRef: {name: lake}
  identifier: sales.orders
  renamedFrom: sales.old_orders
  format: iceberg
  formatVersion: 3
  comment: Orders
  location: s3://lake/orders
  writeDistribution: hash
  columns:
    - {name: order_id, type: long, required: true}
    - {name: customer_ref, type: string, renamedFrom: cust_id, doc: Customer key}
    - {name: amount, type: "decimal(18,2)", default: "0.00"}
    - {name: address, type: "struct<street: string, postcode: string, tags: list<struct<k: string>>>"}
    - {name: amount_eur, type: "decimal(18,2)", computed: {expression: amount * fx_rate}}
    - {name: ordered_at, type: timestamptz, required: true}
    - {name: events, type: "map<struct<a: int>, struct<b: int>>"}
    - {name: n, type: long, typeChange: {strategy: ExpandContract, keepOldFor: 7d}}
  nestedFields:
    - {path: address.postcode, renamedFrom: zip, doc: Postal code, default: none}
    - {path: address.tags.element.k, renamedFrom: key}
  identifierFields: [order_id]
  unmanagedColumns: Warn
  partitioning:
    - {column: ordered_at, transform: day}
    - {column: order_id, transform: "bucket[16]", name: by_id}
  sortOrder: [{column: ordered_at, direction: desc, nulls: last}]
  indexes: [{name: by_customer, columns: [customer_ref], type: bloom}]
  properties: {write.parquet.compression-codec: zstd, team: sales}
  tags:
    - {name: q3, snapshot: {asOf: "2026-10-01T00:00:00Z"}, retain: 365d}
    - {name: nightly, track: main, schedule: "0 2 * * *"}
  branches: [{name: audit, retain: 30d, minSnapshotsToKeep: 2}]
  constraints: [{name: positive, check: amount >= 0}]
  maintenance:
    expireSnapshots: {olderThan: 7d, keep: 20}
    removeOrphanFiles: {olderThan: 3d}
  reconcile: {mode: Apply, interval: 10m}
  suppress: [{code: LK104, path: address.postcode, reason: agreed}]
  approval: {plan: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}
"""


def problems(text: str) -> list[str]:
    """Return each error of a file as its line."""
    try:
        load_documents(text, "f")
    except ManifestErrors as error:
        return [str(part) for part in error.errors]
    except InvalidInput as error:
        return [str(error)]
    return []


def vary(text: str, before: str, after: str, line: str) -> tuple[str, str]:
    """Return the changed manifest and how the error starts; § in `after` marks its place, else `line` says it."""
    assert text.count(before) == 1, "the case must change the manifest in one place"
    changed = text.replace(before, after)
    if "§" not in changed:
        return changed, f"f:{line}"
    above = changed[: changed.index("§")]
    row, column = above.count("\n") + 1, len(above) - above.rfind("\n")
    return changed.replace("§", ""), f"f:{row}:{column}: {line}"


def test_the_manifest_that_all_others_vary_is_accepted() -> None:
    (document,) = load_documents(TABLE, "f")
    assert isinstance(document.manifest, LakeTable)
    assert document.manifest.spec.columns is not None
    assert document.manifest.spec.columns[1].renamed_from == "cust_id"


SHAPES = [
    ("namespace: sales", "§namespce: sales", "metadata.namespce: unknown key 'namespce'. Did you mean 'namespace'?"),
    ("name: orders,", "§nam: orders,", "metadata.nam: unknown key 'nam'. Did you mean 'name'?"),
    ("name: orders,", "name: §Orders_1,", "metadata.name: 'Orders_1' is not a DNS label."),
    ("name: orders,", 'name: §"orders\\n",', "metadata.name: 'name' ends with a newline."),
    ("namespace: sales", "namespace: §a.b", "metadata.namespace: 'a.b' is not a DNS label."),
    (
        "format: iceberg",
        "format: §icberg",
        "spec.format: expected one of delta, iceberg, lance, paimon, found 'icberg'.",
    ),
    ("formatVersion: 3", "formatVersion: §4", "spec.formatVersion: 4 is too big; the most is 3."),
    ("formatVersion: 3", "formatVersion: §'3'", "spec.formatVersion: expected a whole number, found '3'."),
    ("comment: Orders", "comment: §7", 'spec.comment: expected text, found the number 7. Write "7" in quotes.'),
    ("long, required: true", "long, required: §yes", "spec.columns[0].required: expected true or false, found 'yes'."),
    ("type: long, required", "§typ: long, required", "spec.columns[0].typ: unknown key 'typ'. Did you mean 'type'?"),
    ('default: "0.00"', "default: §[1]", "spec.columns[2].default: expected one value, found a list."),
    ("identifierFields: [order_id]", "identifierFields: §order_id", "spec.identifierFields: expected a list,"),
    ("retain: 365d", "retain: §1y", "spec.tags[0].retain: '1y' is not a duration. Write 30d, 12h, 15m or 1h30m."),
    ("retain: 365d", 'retain: §"365d\\n"', "spec.tags[0].retain: 'retain' ends with a newline."),
    ("mode: Apply,", "§'[key]': Apply,", "spec.reconcile[\"[key]\"]: unknown key '[key]'. Known keys: mode, interval,"),
    ("code: LK104", "code: §LK1", "spec.suppress[0].code: 'LK1' is not a finding's code."),
    (
        "sha256:00",
        "sha256:0",
        "43:20: spec.approval.plan: 'sha256:00000000000000000000000000000000000000000000000000...' is not a",
    ),
    ("keep: 20", "keep: §0", "spec.maintenance.expireSnapshots.keep: 0 is too small; the least is 1."),
    ("{code: LK104, path: address.postcode, reason: agreed}", "§{code: LK104}", "spec.suppress[0].reason:"),
    ("team: sales", "team: §3", 'spec.properties.team: expected text, found the number 3. Write "3" in quotes.'),
    ("mode: Apply,", "mode: §apply,", "spec.reconcile.mode: expected one of Apply, Observe, Plan, found 'apply'."),
]
COLUMNS = [
    ("type: string, renamed", "type: §strng, renamed", "spec.columns[1].type: unknown type 'strng'."),
    ("street: string", "street: §strng", "spec.columns[3].type: unknown type 'strng'. Did you mean 'string'?"),
    ('"decimal(18,2)", default', '"§decimal(39,2)", default', "spec.columns[2].type: the precision 39"),
    ("name: customer_ref", "name: §Order_ID", "spec.columns[1].name: 'Order_ID' and 'order_id' (columns[0])"),
    ("name: customer_ref", "name: §order_id", "spec.columns[1].name: the column 'order_id' is there already"),
    ("name: customer_ref", 'name: §"a\\tb"', "spec.columns[1].name: the name holds a control character."),
    (
        "postcode: string, tags",
        "Street: string, tags",
        "17:29: spec.columns[3].type: 'Street' and 'street' (in address)",
    ),
    ("renamedFrom: cust_id", "renamedFrom: §customer_ref", "spec.columns[1].renamedFrom: 'customer_ref' has that"),
    ('default: "0.00"', 'default: §"0.001"', "spec.columns[2].default: the default '0.001' does not fit"),
    ("formatVersion: 3", "formatVersion: 2", "16:54: spec.columns[2].default: defaults need format version 3;"),
    ("computed: {", "§default: 1, computed: {", "spec.columns[4].default: a computed column takes no default."),
    ("type: timestamptz", "type: timestamp§(3)", "spec.columns[5].type: 'timestamp' takes no parameters."),
    ("path: address.postcode, renamed", "path: §address.zip, renamed", "spec.nestedFields[0].path: 'address' has no"),
    ("path: address.postcode, renamed", "path: §address, renamed", "spec.nestedFields[0].path: 'address' is a column"),
    ("path: address.postcode, renamed", "path: §address.tags.element, renamed", "spec.nestedFields[0].path: 'add"),
    ("path: address.postcode, renamed", "path: events.key.a, §renamed", "spec.nestedFields[0].renamedFrom: fields of"),
    ("path: address.postcode, renamed", "path: §'`address', renamed", "spec.nestedFields[0].path: '`address' is not"),
    ("renamedFrom: zip", "renamedFrom: §address.zip", "spec.nestedFields[0].renamedFrom: renamedFrom takes the"),
    ("renamedFrom: zip", "renamedFrom: §postcode", "spec.nestedFields[0].renamedFrom: 'postcode' has that name"),
    ("path: address.tags.element.k, ", "path: §address.postcode, ", "spec.nestedFields[1].path: 'address.postcode' is"),
    ("postcode: string,", "postcode: string comment 'x',", "23:50: spec.nestedFields[0].doc: the doc is said twice"),
]
LAYOUT = [
    (
        "[order_id]\n  un",
        "[§order_idd]\n  un",
        "spec.identifierFields[0]: there is no column 'order_idd'. Did you mean",
    ),
    ("[order_id]\n  un", "[§n]\n  un", "spec.identifierFields[0]: the identifier field 'n' is not required."),
    ("[order_id]\n  un", "[§address]\n  un", "spec.identifierFields[0]: 'address' is nested and cannot identify"),
    ("[order_id]\n  un", "[order_id, §order_id]\n  un", "spec.identifierFields[1]: 'order_id' is there already."),
    ("[order_id]\n  un", "[§address.tags.element.k]\n  un", "spec.identifierFields[0]: 'address.tags.element.k' is"),
    ("{column: ordered_at, transform: day}", "{column: §at}", "spec.partitioning[0].column: there is no column 'at'."),
    (
        "transform: day",
        "transform: §dayy",
        "spec.partitioning[0].transform: unknown transform 'dayy'. Did you mean 'day'?",
    ),
    (
        "transform: day",
        "transform: §bucket",
        "spec.partitioning[0].transform: 'bucket' needs one number. Write 'bucket",
    ),
    ("transform: day", 'transform: §"day[2]"', "spec.partitioning[0].transform: 'day' takes no number. Write 'day'."),
    ("transform: day", 'transform: §"truncate[2]"', "spec.partitioning[0].transform: 'truncate[2]' does not apply"),
    ("column: ordered_at, transform: day", "column: §address.tags.element.k", "spec.partitioning[0].column: cannot"),
    ("column: ordered_at, transform: day", "column: §address", "spec.partitioning[0].column: cannot partition by 'a"),
    ("name: by_id", "name: §amount", "spec.partitioning[1].name: the name 'amount' is a column's."),
    ("{column: ordered_at, direction", "{column: §address, direction", "spec.sortOrder[0].column: cannot sort by 'add"),
    (
        "{column: ordered_at, direction",
        "{column: §nope, direction",
        "spec.sortOrder[0].column: there is no column 'nope'.",
    ),
    ("columns: [customer_ref]", "columns: [§cust]", "spec.indexes[0].columns[0]: there is no column 'cust'."),
    (
        "    - {column: order_id, tr",
        "    - §{column: ordered_at, transform: month}\n    - {column: order_id, tr",
        "spec.partitioning[1]: 'ordered_at' is partitioned by partitioning[0] already.",
    ),
    ("nulls: last}]", "nulls: last}, §{column: ordered_at}]", "spec.sortOrder[1]: 'ordered_at' is in the sort order"),
]
OTHERS = [
    ("identifier: sales.orders", "identifier: §orders", "spec.identifier: 'orders' has no namespace. Write"),
    (
        "identifier: sales.orders",
        "identifier: §sales..orders",
        "spec.identifier: 'sales..orders' is not a table name: a",
    ),
    (
        "identifier: sales.orders",
        "identifier: §sales.o;x",
        "spec.identifier: 'sales.o;x' is not a table name: the part",
    ),
    ("renamedFrom: sales.old_orders", "renamedFrom: §sales.orders", "spec.renamedFrom: the table is called 'sales.or"),
    ("location: s3://lake/orders", "location: §s3://k:s@lake/o", "spec.location: the location holds a password."),
    ("location: s3://lake/orders", "location: §s3://lake/../o", "spec.location: the location holds '..' or"),
    ("team: sales", "§laketable.owner: me", "spec.properties[\"laketable.owner\"]: 'laketable.owner' cannot be set"),
    ("team: sales", "§write.location-provider.impl: a.B", 'spec.properties["write.location-provider.impl"]: \'write.'),
    ("team: sales", "§write.data.path: s3://x", "spec.properties[\"write.data.path\"]: 'write.data.path' cannot be"),
    ("team: sales", "§format-version: '2'", "spec.properties.format-version: 'format-version' cannot be set: it is"),
    ("team: sales", "§my.password: x", "spec.properties[\"my.password\"]: 'my.password' cannot be set: it looks"),
    ("team: sales", "§encryption.key-id: x", "spec.properties[\"encryption.key-id\"]: 'encryption.key-id' cannot"),
    ("team: sales", "§comment: x", "spec.properties.comment: 'comment' is said twice: spec.comment sets it too."),
    (
        "compression-codec",
        "compresion-codec",
        '32:16: spec.properties["write.parquet.compresion-codec"]: \'write.parquet.co',
    ),
    ('"2026-10-01T00:00:00Z"', "§yesterday", "spec.tags[0].snapshot.asOf: 'yesterday' is not an instant."),
    ('{asOf: "2026-10-01T00:00:00Z"}', "§{}", "spec.tags[0].snapshot: a snapshot is given by id or by asOf."),
    (', schedule: "0 2 * * *"', "", "35:30: spec.tags[1].track: a tag that tracks main needs a schedule."),
    ("track: main, ", "§", "spec.tags[1].schedule: only a tag that tracks main has a schedule."),
    ("0 2 * * *", "0 25 * * *", "35:46: spec.tags[1].schedule: '25' is no valid hour"),
    ("0 2 * * *", "0 2 * *  ", "35:46: spec.tags[1].schedule: '0 2 * *  ' has 4 fields"),
    ("name: nightly", "name: §q3", "spec.tags[1].name: the name 'q3' is taken by tags[0]."),
    ("name: audit", "name: §q3", "spec.branches[0].name: the name 'q3' is taken by tags[0]."),
    ("name: audit", "name: §main", "spec.branches[0].name: 'main' is the table's own branch."),
    ("name: audit", "name: §lt_x", "spec.branches[0].name: names that start with 'lt_' are LakeTable's own."),
    ("olderThan: 3d", "olderThan: §2d", "spec.maintenance.removeOrphanFiles.olderThan: 2d is too young"),
    ("{olderThan: 3d}", "{olderThan: 3d}\n    staleBranches: §12h", "spec.maintenance.staleBranches: 12h is too short"),
    ("interval: 10m", "interval: §10ms", "spec.reconcile.interval: 10ms is too short."),
]


@pytest.mark.parametrize(("before", "after", "line"), [*SHAPES, *COLUMNS, *LAYOUT, *OTHERS])
def test_each_fault_is_one_line_at_its_place(before: str, after: str, line: str) -> None:
    changed, start = vary(TABLE, before, after, line)
    found = problems(changed)
    assert any(part.startswith(start) for part in found), found
    assert all("\n" not in part for part in found)


def _columns(*columns: str) -> str:
    lines = "".join(f"    - {column}\n" for column in columns)
    return f"apiVersion: laketable.dev/v1alpha1\nkind: LakeTable\nmetadata: {{name: t}}\nspec:\n  columns:\n{lines}"


@pytest.mark.parametrize(
    ("type_", "name"), [("struct<b: int>", "a.b"), ("list<struct<c: int>>", "a.element.c"), ("map<int, int>", "a.key")]
)
def test_a_name_with_dots_is_no_nested_field_of_another_column(type_: str, name: str) -> None:
    found = problems(_columns(f'{{name: a, type: "{type_}"}}', f"{{name: {name}, type: int}}"))
    assert found == [
        f"f:7:14: spec.columns[1].name: '{name}' is the full name of a field in 'a' too. Rename one of them."
    ]
    assert problems(_columns(f'{{name: b, type: "{type_}"}}', f"{{name: {name}, type: int}}")) == []


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (["{name: a, type: int, renamedFrom: b}", "{name: b, type: int, renamedFrom: a}"], "a ← b ← a"),
        (
            [
                "{name: a, type: int, renamedFrom: b}",
                "{name: b, type: int, renamedFrom: c}",
                "{name: c, type: int, renamedFrom: a}",
            ],
            "a ← b ← c ← a",
        ),
    ],
)
def test_circular_renames_are_reported_once(columns: list[str], shown: str) -> None:
    assert problems(_columns(*columns)) == [
        f"f:6:41: spec.columns[0].renamedFrom: the renames go round in a circle: {shown}. "
        "Rename in two steps, through a third name."
    ]


def test_a_chain_of_renames_is_no_circle() -> None:
    assert problems(_columns("{name: a, type: int, renamedFrom: b}", "{name: b, type: int, renamedFrom: c}")) == []


def test_one_column_cannot_become_two() -> None:
    found = problems(_columns("{name: a, type: int, renamedFrom: x}", "{name: b, type: int, renamedFrom: x}"))
    assert found == ["f:7:41: spec.columns[1].renamedFrom: 'x' cannot become both 'a' and 'b'. Remove one renamedFrom."]


def test_types_of_version_3_need_it() -> None:
    text = _columns('{name: a, type: "list<variant>"}')
    assert problems(text) == []
    assert problems(text.replace("spec:\n", "spec:\n  formatVersion: 2\n")) == [
        "f:7:23: spec.columns[0].type: 'variant' needs format version 3; formatVersion says 2. "
        "Write formatVersion: 3, or choose another type."
    ]


def test_a_name_with_a_dot_is_found_in_back_ticks() -> None:
    text = _columns("{name: a.b, type: int, required: true}")
    assert problems(text + "  identifierFields: ['`a.b`']\n") == []
    (found,) = problems(text + "  identifierFields: [a.b]\n")
    assert found.endswith("there is no column 'a.b'. Write the column's name in back-ticks: '`a.b`'.")


def test_a_view_may_pin_its_columns_but_not_fill_them() -> None:
    view = _columns("{name: a, type: int}").replace("  columns:", "  materializedView: {query: SELECT 1}\n  columns:")
    assert problems(view) == []
    assert problems(view.split("  columns:")[0]) == []
    (found,) = problems(view.replace("type: int", "type: int, required: true"))
    assert "'a' is a column of a materialized view, and takes no 'required'" in found


@pytest.mark.parametrize(
    ("line", "place", "says"),
    [
        ('partitioning: [{column: "a..b"}]', "partitioning[0].column", "has an empty part"),
        ("partitioning: [{column: a, transform: nope}]", "partitioning[0].transform", "unknown transform 'nope'"),
        ('sortOrder: [{column: "s."}]', "sortOrder[0].column", "has an empty part"),
        ('sortOrder: [{column: s, transform: "bucket[x]"}]', "sortOrder[0].transform", "needs one number"),
        ('identifierFields: ["a."]', "identifierFields[0]", "has an empty part"),
        ('indexes: [{name: x, columns: [a, "`b"], type: bloom}]', "indexes[0].columns[1]", "is not a path"),
        (
            'indexes: [{name: x, columns: [a], type: bloom, properties: {size: "1"}}]',
            "indexes[0].properties.size",
            "has no parameter 'size'",
        ),
        (
            'indexes: [{name: x, columns: [a], type: bloom, properties: {fpp: "2"}}]',
            "indexes[0].properties.fpp",
            "is no fpp",
        ),
        ("indexes: [{name: x, columns: [a], type: zorder}]", "indexes[0].columns", "takes 2 to"),
        (
            "indexes: [{name: x, columns: [a], type: sort}, {name: y, columns: [b], type: sort}]",
            "indexes[1].type",
            "orders the rows of files",
        ),
    ],
)
def test_a_view_that_states_no_columns_still_spells_them_right(line: str, place: str, says: str) -> None:
    view = _columns("{name: a, type: int}").split("  columns:")[0] + "  materializedView: {query: SELECT 1}\n"
    (found,) = problems(f"{view}  {line}\n")
    assert found.split(": ")[1] == f"spec.{place}"
    assert says in found


def test_columns_are_stated_once() -> None:
    text = _columns("{name: a, type: int}") + "  schemaFrom: {configMap: {name: columns}}\n"
    (found,) = problems(text)
    assert "spec.schemaFrom: the columns are said twice" in found


def test_a_table_needs_columns() -> None:
    (found,) = problems(_columns("{name: a, type: int}").split("  columns:")[0].replace("spec:", "spec: {}"))
    assert found == "f:4:7: spec.columns: 'columns' is missing. A table needs columns or a materializedView."


def test_all_errors_of_all_documents_are_told_in_order() -> None:
    bad = _columns("{name: a, type: itn}", "{name: A, type: int}")
    found = problems(f"{bad}---\n{bad}")
    assert [part.split(": ")[0] for part in found] == ["f:6:23", "f:7:14", "f:14:23", "f:15:14"]


def test_a_wrong_shape_hides_no_wrong_type() -> None:
    found = problems(_columns("{name: a, type: itn}", "{name: b, typ: int}", "{name: c, type: 7}"))
    assert [part.split(": ")[1] for part in found] == [
        "spec.columns[0].type",
        "spec.columns[1].type",
        "spec.columns[1].typ",
        "spec.columns[2].type",
    ]


@settings(deadline=None)
@given(st.data())
def test_no_damage_to_a_file_ends_in_anything_but_errors(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(TABLE)))
    end = start + data.draw(st.integers(0, 12))
    junk = data.draw(
        st.sampled_from(["", "[", "}", ": ", "- ", "null", "~: ", "&a ", "*a", "\t", "7", '"', "<<: ", "\x00", "é"])
    )
    lines = problems(TABLE[:start] + junk + TABLE[end:])
    assert all(line.startswith("f:") and "\n" not in line for line in lines)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("- a", "f:1:1: a document must be a mapping. Start it with apiVersion and kind."),
        ("just text", "f:1:1: a document must be a mapping."),
        ("kind: LakeTable", "f:1:1: apiVersion: 'apiVersion' is missing. Write apiVersion: laketable.dev/v1alpha1."),
        ("apiVersion: laketable.dev/v1\nkind: LakeTable", "f:1:13: apiVersion: 'laketable.dev/v1' is not known."),
        ("apiVersion: v1\nkind: LakeTable", "f:1:13: apiVersion: 'v1' is not the group of LakeTable."),
        ("apiVersion: laketable.dev/v1alpha1\nkind: LakeTabel", "f:2:7: kind: unknown kind 'LakeTabel'. Did you mean"),
        (
            "apiVersion: laketable.dev/v1alpha1\nkind: LakeTable\nspec: []\nmetadata: {name: a}",
            "f:3:7: spec: expected a",
        ),
        ("apiVersion: laketable.dev/v1alpha1\nkind: LakeTable", "f:1:1: metadata: 'metadata' is missing."),
    ],
)
def test_what_is_no_manifest(text: str, line: str) -> None:
    assert problems(text)[0].startswith(line)


def test_other_tools_resources_are_foreign() -> None:
    (document,) = load_documents("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", "f")
    assert (document.kind, document.is_foreign) == ("ConfigMap", True)


def test_what_an_api_server_adds_is_ignored() -> None:
    text = _columns("{name: a, type: int}").replace(
        "{name: t}", "{name: t, uid: x, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z'}"
    )
    (document,) = load_documents(f"{text}status: {{observedGeneration: 1}}\n", "f")
    assert document.manifest is not None
    assert document.manifest.metadata.uid == "x"


def test_a_kubectl_list_is_taken_apart() -> None:
    head = "apiVersion: laketable.dev/v1alpha1, kind: LakeTable, metadata: {name: t}"
    item = f"{{{head}, spec: {{columns: [{{name: a, type: %s}}]}}}}"
    text = f"apiVersion: v1\nkind: List\nitems:\n- {item % 'int'}\n- {item % 'lng'}\n"
    (found,) = problems(text)
    assert found.startswith("f:5:111: items[1].spec.columns[0].type: unknown type 'lng'.")
    assert len(load_documents(text.replace("lng", "long"), "f")) == 2
