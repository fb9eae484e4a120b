"""The registry of finding codes: one visible tuple, one entry per code; a code is never used again for something else.

LK1xx destructive, LK2xx data-dependent, LK3xx consumers, LK4xx readers, LK5xx cost, LK6xx hygiene. `plan.findings`
makes findings from it and renders its pages in `docs/findings/`; it is the only place where a code is explained.
"""

from __future__ import annotations

import msgspec

from reconciler.plan.operations import Severity


class FindingKind(msgspec.Struct, frozen=True, kw_only=True):
    """What a code means: why it matters, a manifest that raises it (`before`), one that does not (`after`), the fix.

    `suppressible` False: applying anyway would break the table or cannot work, so `suppress:` is refused.
    """

    code: str
    title: str
    severity: Severity
    suppressible: bool
    why: str
    before: str
    after: str
    fix: str


ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO


def _kind(
    code: str,
    title: str,
    severity: Severity,
    *,
    why: str,
    before: str,
    after: str,
    fix: str,
    suppressible: bool | None = None,
) -> FindingKind:
    """Make an entry; unless said otherwise an error cannot be suppressed and anything else can."""
    return FindingKind(
        code=code,
        title=title,
        severity=severity,
        suppressible=severity is not ERROR if suppressible is None else suppressible,
        why=why,
        before=before,
        after=after,
        fix=fix,
    )


COLUMNS_DROPPED = """\
# live: order_id, cust_id
columns:
  - {name: order_id, type: long}
"""
COLUMNS_KEPT = """\
columns:
  - {name: order_id, type: long}
  - {name: cust_id, type: string}
"""

_DESTRUCTIVE = (
    _kind(
        "LK101",
        "A column is dropped",
        WARNING,
        why="A column that this manifest managed is no longer in it, so it is dropped. Readers lose it at once. Its "
        "values stay in the data files until those are rewritten; until then `laketable undo` brings them back.",
        before=COLUMNS_DROPPED,
        after=COLUMNS_KEPT,
        fix="Keep the column in the manifest, or approve the plan by its hash. If the column got another name, say so "
        "with `renamedFrom`.",
    ),
    _kind(
        "LK102",
        "The table is dropped",
        WARNING,
        why="The table leaves the catalog: every reader and writer fails from then on. Data files stay where they are "
        "until the catalog purges them.",
        before="reconcile: {deletionPolicy: Drop}\n",
        after="reconcile: {deletionPolicy: Retain}\n",
        fix="Keep `deletionPolicy: Retain`, or approve the drop by its hash.",
    ),
    _kind(
        "LK103",
        "The table is renamed",
        WARNING,
        why="Readers, writers and views address a table by its name; under the former name they find nothing. The data "
        "is not touched.",
        before="identifier: sales.orders_v2\nrenamedFrom: sales.orders\n",
        after="identifier: sales.orders\n",
        fix="Tell the readers first, then approve the plan by its hash. Remove `renamedFrom` once it is done.",
    ),
    _kind(
        "LK104",
        "A dropped and an added column look like a rename",
        ERROR,
        suppressible=True,
        why="One column goes and another of the same type comes. As drop and add, the new column starts with NULL in "
        "every row and the old values are lost to readers; as a rename, the field id and all values stay. A manifest "
        "cannot tell the two apart, so nothing happens until it says which one is meant.",
        before="# live: cust_id\ncolumns:\n  - {name: customer_ref, type: string}\n",
        after="columns:\n  - {name: customer_ref, type: string, renamedFrom: cust_id}\n",
        fix="Add the `renamedFrom` line that the hint shows. If it really is a new column, suppress LK104 for its path "
        "with a reason; the drop still needs the approval of every drop.",
    ),
    _kind(
        "LK105",
        "Two columns differ only in case",
        ERROR,
        why="Spark, Trino and Hive look up columns without regard to case, so a table with both `Id` and `id` cannot "
        "be read there at all.",
        before="# live: orderId\ncolumns:\n  - {name: orderId, type: long}\n  - {name: orderid, type: long}\n",
        after="columns:\n  - {name: orderid, type: long, renamedFrom: orderId}\n",
        fix="Give one of them another name, or rename the live one with `renamedFrom`.",
    ),
    _kind(
        "LK106",
        "A rename is ambiguous",
        ERROR,
        why="`renamedFrom` names a column that is still there beside the new one, or that two columns claim. Either "
        "reading loses somebody's values.",
        before="# live: a, b\ncolumns:\n  - {name: b, type: long, renamedFrom: a}\n",
        after="columns:\n  - {name: a, type: long}\n  - {name: b, type: long}\n",
        fix="Remove `renamedFrom` when both columns are meant to exist, or when the rename is done and the former name "
        "came back since. To put one column in the place of the other, drop the other in a plan of its own first. Let "
        "one column only claim a former name.",
    ),
    _kind(
        "LK107",
        "The column to rename is not there",
        ERROR,
        why="`renamedFrom` names a column that the table does not have, and the new name does not exist either. Adding "
        "it instead would hide a typing error behind a column full of NULLs.",
        before="# live: cust_id\ncolumns:\n  - {name: customer_ref, type: string, renamedFrom: custid}\n",
        after="columns:\n  - {name: customer_ref, type: string, renamedFrom: cust_id}\n",
        fix="Correct the former name, or remove `renamedFrom` to add a new column.",
    ),
    _kind(
        "LK108",
        "A tag or branch is moved",
        WARNING,
        why="A tag is a promise about data: reports and audits that name it read something else once it moves. A moved "
        "branch drops the commits that only it held.",
        before="tags: [{name: q3-close, snapshot: {id: 7138}}]   # live: 6001\n",
        after="tags: [{name: q3-close, snapshot: {id: 6001}}, {name: q3-close-2, snapshot: {id: 7138}}]\n",
        fix="Make a new tag beside it, or approve the plan by its hash.",
    ),
    _kind(
        "LK109",
        "A tag or branch is dropped",
        WARNING,
        why="The snapshot that it kept may be expired from then on, and with it the only way to read that data. Only "
        "tags and branches that LakeTable made are ever dropped.",
        before="tags: []   # live: q3-close\n",
        after="tags: [{name: q3-close, snapshot: {id: 6001}}]\n",
        fix="Keep it in the manifest, or approve the plan by its hash.",
    ),
    _kind(
        "LK110",
        "A column in use cannot be dropped",
        ERROR,
        why="A partition field, the sort order or the identifier fields still name the column. A table whose layout "
        "names a missing column cannot be planned by any writer.",
        before="columns:\n  - {name: id, type: long}\npartitioning: [{column: day, transform: identity}]\n",
        after="columns:\n  - {name: id, type: long}\npartitioning: []\n",
        fix="Remove the column from `partitioning`, `sortOrder` or `identifierFields` in the same change.",
    ),
    _kind(
        "LK111",
        "A tag cannot become a branch, nor a branch a tag",
        ERROR,
        why="Both share one set of names. Changing the kind would be a drop and a new one under the same name.",
        before="branches: [{name: audit}]   # live: a tag called audit\n",
        after="branches: [{name: audit-2}]\n",
        fix="Use another name, or remove the old one in a change of its own first.",
    ),
    _kind(
        "LK112",
        "The table is taken from another owner",
        WARNING,
        why="Another manifest claimed this table. After this plan that one is refused; two owners with different specs "
        "would otherwise undo each other for ever.",
        before="laketable apply -f orders.yaml --take-ownership\n",
        after="laketable apply -f orders.yaml\n",
        fix="Remove the table from the other repository first; take it over only when that one is gone.",
    ),
    _kind(
        "LK113",
        "Somebody else moved a tag that follows main",
        WARNING,
        why="The tag is not where its schedule put it, so somebody means it to be elsewhere. LakeTable does not move "
        "it again, because a tag is a promise to whoever made it.",
        before="tags: [{name: nightly, track: main, schedule: '0 2 * * *'}]   # and REPLACE TAG nightly by hand\n",
        after="tags: [{name: nightly, track: main, schedule: '0 2 * * *'}]   # and DROP TAG nightly, then apply\n",
        fix="Drop the tag and apply: it is made anew at main's head and follows main again; or remove it from the "
        "manifest.",
    ),
    _kind(
        "LK114",
        "The table to rename is not there",
        WARNING,
        why="`renamedFrom` names a table that the catalog does not have, so a new, empty one is created. Where nothing "
        "exists yet that is meant; otherwise it is a typing error, and the rows stay under the former name.",
        before="# live: sales.orders\nidentifier: sales.purchases\nrenamedFrom: sales.order\n",
        after="identifier: sales.purchases\nrenamedFrom: sales.orders\n",
        fix="Correct the former name; or go ahead, where the table is new.",
    ),
)

_DATA = (
    _kind(
        "LK201",
        "A type cannot be narrowed in place",
        ERROR,
        why="Data files keep the wider values, and a schema with the narrower type makes them unreadable. The bounds "
        "in the manifests say whether today's values would fit, so that the way round can be judged.",
        before="# live: quantity long\ncolumns:\n  - {name: quantity, type: int}\n",
        after="columns:\n  - {name: quantity, type: int, typeChange: {strategy: ExpandContract}}\n",
        fix="Say `typeChange: {strategy: ExpandContract}`: a converted column is filled and takes the name. For a "
        "nested field, add one of the narrower type beside it, fill it, move the readers, then drop the old one.",
    ),
    _kind(
        "LK202",
        "The format cannot change this type in place",
        ERROR,
        why="Iceberg widens int to long, float to double and a decimal's precision at the same scale; version 3 adds "
        "date to timestamp and unknown to anything. Anything else would reinterpret bytes that are already written.",
        before="# live: amount string\ncolumns:\n  - {name: amount, type: 'decimal(18,2)'}\n",
        after="columns:\n  - {name: amount, type: string}\n  - {name: amount_decimal, type: 'decimal(18,2)'}\n",
        fix="Say `typeChange: {strategy: ExpandContract}`: a converted column is filled and takes the name. For a "
        "nested field, add one of the new type under another name, fill it, move the readers, then drop the old one.",
    ),
    _kind(
        "LK203",
        "The column holds NULLs, so it cannot be required",
        ERROR,
        why="The manifests count NULLs in files that no delete touches. A required column with NULLs fails "
        "its readers.",
        before="columns:\n  - {name: order_id, type: long, required: true}   # 12 NULLs live\n",
        after="columns:\n  - {name: order_id, type: long}\n",
        fix="Fill or delete the rows with NULL, then plan again; or leave the column optional.",
    ),
    _kind(
        "LK204",
        "Nothing proves yet that the column can be required",
        ERROR,
        why="Some files have no usable null count (the column is younger than they are, counts are switched off, or "
        "deletes blur them), so only reading them tells. 'laketable apply' reads just these files, in a data job, and "
        "commits when no value is missing: then this is information. It stays an error where no scan helps: for the "
        "parts of lists and maps, for an undo, and where no data job runs.",
        before="columns:\n  - {name: order_id, type: long, required: true}\n",
        after="columns:\n  - {name: order_id, type: long}\n",
        fix="Rewrite the unproven files (compaction records null counts), then plan again; or leave the "
        "column optional.",
    ),
    _kind(
        "LK205",
        "The null counts prove that the column can be required",
        INFO,
        why="Every live file counts zero NULLs for the column. The commit asserts that main is still the snapshot that "
        "was proven.",
        before="columns:\n  - {name: order_id, type: long}\n",
        after="columns:\n  - {name: order_id, type: long, required: true}\n",
        fix="Nothing to do.",
    ),
    _kind(
        "LK206",
        "A required column is added without a default",
        ERROR,
        why="Existing rows have no value for it, so every reader of a required column would fail on them.",
        before="columns:\n  - {name: region, type: string, required: true}\n",
        after="columns:\n  - {name: region, type: string}\n",
        fix="Add it as optional, fill it and make it required then; or, with `formatVersion: 3`, give it a `default`.",
    ),
    _kind(
        "LK207",
        "The shape of a column changes",
        ERROR,
        why="A struct, list, map or primitive cannot become another of the four: the field ids below it would have "
        "nothing to read.",
        before="# live: address string\ncolumns:\n  - {name: address, type: 'struct<street: string>'}\n",
        after="columns:\n  - {name: address, type: string}\n"
        "  - {name: address_parts, type: 'struct<street: string>'}\n",
        fix="Add a column of the new shape, fill it, move the readers, then drop the old one.",
    ),
    _kind(
        "LK208",
        "The catalog's runtime does not run data jobs here",
        ERROR,
        why="The plan reads or writes rows, and the LakeCatalog names a runtime that this command cannot start, or "
        "that cannot do it: over Spark Connect rows of format v3 tables are neither written nor scanned. Half of a "
        "declared table would be neither what the file says nor what it was, so nothing is done.",
        before="# the LakeCatalog says runtime: {type: job}\nconstraints: [{name: positive, check: amount >= 0}]\n",
        after="# the LakeCatalog says runtime: {type: local}\nconstraints: [{name: positive, check: amount >= 0}]\n",
        fix="Set the runtime to one that runs from here, or let the operator apply the plan.",
    ),
    _kind(
        "LK209",
        "A widening would change a partition value",
        ERROR,
        why="The partition values of existing files were computed from the narrower type. With this transform the "
        "wider type gives other values, so filters would skip files that hold matching rows.",
        before="columns:\n  - {name: day, type: timestamp}   # live: date\n"
        "partitioning: [{column: day, transform: 'bucket[16]'}]\n",
        after="columns:\n  - {name: day, type: date}\npartitioning: [{column: day, transform: 'bucket[16]'}]\n",
        fix="Add a column of the wider type and partition by that one.",
    ),
    _kind(
        "LK210",
        "The snapshot that a tag or branch names is not there",
        ERROR,
        why="The snapshot expired, never existed, or lies before the table's history.",
        before="tags: [{name: q3-close, snapshot: {id: 42}}]\n",
        after='tags: [{name: q3-close, snapshot: {asOf: "2026-10-01T00:00:00Z"}}]\n',
        fix="Name a snapshot that the table still has; `laketable history` lists them.",
    ),
    _kind(
        "LK211",
        "A tag or branch waits for the first snapshot",
        INFO,
        why="The table has no data yet, so there is nothing to name. It is made by the first run after a write.",
        before="tags: [{name: start}]   # the table is empty\n",
        after="tags: []\n",
        fix="Nothing to do: write to the table, then apply again.",
    ),
    _kind(
        "LK212",
        "A tag or branch waits for its time",
        INFO,
        why="Its `asOf` lies in the future. It is resolved once that time has passed, and pinned from then on.",
        before='tags: [{name: year-end, snapshot: {asOf: "2100-01-01T00:00:00Z"}}]\n',
        after='tags: [{name: year-end, snapshot: {asOf: "2026-01-01T00:00:00Z"}}]\n',
        fix="Nothing to do.",
    ),
    _kind(
        "LK213",
        "A map's key cannot change",
        ERROR,
        why="Adding, dropping or altering a field inside a map's key would change which keys are equal.",
        before="columns:\n  - {name: m, type: 'map<struct<a: int, b: int>, string>'}   # live key: struct<a: int>\n",
        after="columns:\n  - {name: m, type: 'map<struct<a: int>, string>'}\n",
        fix="Add a map with the new key, fill it, move the readers, then drop the old one.",
    ),
    _kind(
        "LK214",
        "The column cannot have this default or be required",
        ERROR,
        why="Iceberg gives `unknown`, `variant`, `geometry` and `geography` columns no default other than NULL, and an "
        "`unknown` column is always optional.",
        before="columns:\n  - {name: payload, type: variant, default: '{}'}\n",
        after="columns:\n  - {name: payload, type: variant}\n",
        fix="Remove the default, or make the column optional.",
    ),
    _kind(
        "LK215",
        "The expression of a computed column is refused",
        ERROR,
        why="Only deterministic expressions over the row's own columns, made of known functions, are ever given to "
        "Spark; everything else could read other data, run code, or give another value each time.",
        before="columns:\n  - {name: total, type: double, computed: {expression: 'price * rand()'}}\n",
        after="columns:\n  - {name: total, type: double, computed: {expression: 'price * quantity'}}\n",
        fix="Write it with the row's own columns and the documented functions.",
    ),
    _kind(
        "LK216",
        "A column cannot be computed here",
        ERROR,
        why="Filling it would change where rows lie or what they are known by, or would read values that are being "
        "computed in the same pass.",
        before="columns:\n  - {name: at, type: timestamptz}\n"
        "  - {name: day, type: date, computed: {expression: 'to_date(at)'}}\n"
        "partitioning: [{column: day, transform: identity}]\n",
        after="columns:\n  - {name: at, type: timestamptz}\n"
        "  - {name: day, type: date, computed: {expression: 'to_date(at)'}}\n"
        "partitioning: [{column: at, transform: day}]\n",
        fix="Compute it from plain columns, and keep it out of partitioning, sort order and identifier fields.",
    ),
    _kind(
        "LK217",
        "A constraint's condition is refused",
        ERROR,
        why="A check is parsed, held to an allowlist and printed anew before it may reach Spark. What is not on the "
        "list, or does not fit the table's columns, runs nowhere.",
        before="columns:\n  - {name: amount, type: long}\nconstraints: [{name: positive, check: amuont >= 0}]\n",
        after="columns:\n  - {name: amount, type: long}\nconstraints: [{name: positive, check: amount >= 0}]\n",
        fix="Write a deterministic condition over the table's own columns.",
    ),
    _kind(
        "LK218",
        "A constraint waits for its columns",
        WARNING,
        why="The rows are scanned before anything is committed, so a constraint over a column that the same plan adds, "
        "renames or converts cannot be checked yet. The rest of the plan goes ahead without it. An undo scans nothing: "
        "a constraint does not come back with it when rows have come since.",
        before="# live: id\ncolumns:\n  - {name: id, type: long}\n"
        "  - {name: twice, type: long, computed: {expression: 'id * 2'}}\n"
        "constraints: [{name: even, check: 'twice % 2 = 0'}]\n",
        after="# live: id, twice\ncolumns:\n  - {name: id, type: long}\n"
        "  - {name: twice, type: long, computed: {expression: 'id * 2'}}\n"
        "constraints: [{name: even, check: 'twice % 2 = 0'}]\n",
        fix="Apply the plan, then apply again: the second plan scans the rows and adds the constraint.",
    ),
    _kind(
        "LK219",
        "A restore would lose values of dropped or converted columns",
        ERROR,
        why="Rows come back under the table's present schema. Columns that were dropped since have no place in it, so "
        "their values would not be in the new files, and undoing the drop later would find them gone. Of a column "
        "whose type was changed by expand and contract, rows from before would have a value in the former column "
        "alone, which leaves on its date. Where a file has no metrics of a column, the schemas of its time decide.",
        before="laketable restore sales.orders --to q3-close   # discount was dropped since\n",
        after="laketable undo sales.orders\nlaketable restore sales.orders --to q3-close\n",
        fix="Bring the columns back first: undo the plan that dropped them, or that changed their type; apply the "
        "change again afterwards. To look at the rows only, read the tag.",
    ),
    _kind(
        "LK220",
        "A restore would bring NULLs into a required column",
        ERROR,
        why="The column became required after that snapshot, and the files that would come back do not prove that each "
        "of their rows has a value.",
        before="columns:\n  - {name: customer, type: string, required: true}\n",
        after="columns:\n  - {name: customer, type: string}\n",
        fix="Make the column optional first, restore, fill the values, and make it required again.",
    ),
    _kind(
        "LK221",
        "A column is computed from one that changes its type",
        WARNING,
        why="Its values were computed from the former type, and may come out otherwise from the new one.",
        before="# live: amount string\ncolumns:\n"
        "  - {name: amount, type: 'decimal(18,2)', typeChange: {strategy: ExpandContract}}\n"
        "  - {name: label, type: string, computed: {expression: \"concat('EUR ', amount)\"}}\n",
        after="columns:\n  - {name: amount, type: 'decimal(18,2)'}\n"
        "  - {name: label, type: string, computed: {expression: \"concat('EUR ', amount)\", version: 1}}\n",
        fix="Raise the computed column's `version` when the type has changed, to compute it again.",
    ),
    _kind(
        "LK222",
        "The type cannot change by expand and contract",
        ERROR,
        why="The converted column takes the place of the former one, and what rests on the former one's field id would "
        "be left behind: partitions, the sort order, identifier fields. Nor can a value be converted by an expression "
        "that is refused, or without one between types that have no obvious conversion.",
        before="columns:\n  - {name: day, type: int, typeChange: {strategy: ExpandContract}}   # live: string\n"
        "partitioning: [{column: day}]\n",
        after="columns:\n  - {name: day, type: string}\n"
        "  - {name: day_number, type: int, computed: {expression: try_cast(day AS int)}}\n"
        "partitioning: [{column: day}]\n",
        fix="Do what the message says is in the way first, or add a column of the new type under another name.",
    ),
    _kind(
        "LK223",
        "A column changes its type by expand and contract",
        WARNING,
        why="Every file of the table is written anew with a converted column, which then takes the name. Readers by "
        "name get the new type from one commit to the next; writers that still write the former type fail. The former "
        "column stays readable beside it for as long as `keepOldFor` says, then a plan of its own drops it.",
        before="# live: amount string\ncolumns:\n"
        "  - {name: amount, type: 'decimal(18,2)', typeChange: {strategy: ExpandContract}}\n",
        after="columns:\n  - {name: amount, type: string}\n",
        fix="Tell readers and writers, then approve the plan by its hash.",
    ),
    _kind(
        "LK225",
        "The format has no index of this type",
        ERROR,
        why="Iceberg has no indexes. Bloom filters, sort orders, z-orders and distinct counts come close to some; "
        "nothing comes close to the others, and pretending would only cost.",
        before="indexes: [{name: by_line, columns: [line], type: inverted}]\n",
        after="indexes: [{name: by_line, columns: [line], type: bloom}]\n",
        fix="Remove it, or choose bloom, sort, zorder or ndv.",
    ),
    _kind(
        "LK226",
        "A z-order that nothing makes",
        WARNING,
        why="No writer knows of a z-order: files only get one when LakeTable rewrites them, which this index does not "
        "ask for.",
        before="indexes: [{name: by_both, columns: [order_id, line], type: zorder}]\n",
        after="indexes: [{name: by_both, columns: [order_id, line], type: zorder, rewriteExisting: true}]\n",
        fix="Add `rewriteExisting: true` to it.",
    ),
    _kind(
        "LK227",
        "A constraint loses its column",
        ERROR,
        why="The table remembers a constraint that the manifest does not state, so it stays, and follows a column that "
        "is renamed. Without the column, or with a field inside it under another name, nobody could check it any more.",
        before="# live: id, amount, and constraint positive: amount >= 0\ncolumns:\n  - {name: id, type: long}\n",
        after="columns:\n  - {name: id, type: long}\nconstraints: []\n",
        fix="State `constraints`: with a condition over the new columns, or without it (`[]`) to take it back.",
    ),
    _kind(
        "LK228",
        "An undo drops values that others wrote",
        WARNING,
        why="Undoing a type change gives the name back to the former column and drops the converted one. What others "
        "wrote since the names were exchanged is in the converted column alone.",
        before="laketable undo sales.orders   # others have written since amount became a decimal\n",
        after="columns:\n  - {name: amount, type: string, typeChange: {strategy: ExpandContract}}\n",
        fix="State the former type with a `typeChange` instead, which converts their values. Go on with the undo where "
        "they shall go, as before a restore to a snapshot of that time.",
    ),
)

_VIEW = """\
materializedView:
  query: SELECT order_date, sum(amount) AS revenue FROM sales.orders GROUP BY order_date
"""

_CONSUMERS = (
    _kind(
        "LK301",
        "A materialized view reads what changes",
        ERROR,
        why="The view's query names the column. Once it is dropped, renamed or of another type, the next refresh "
        "fails, and the view's rows stay as old as they are.",
        before="# live: order_id, amount; a view sums amount\ncolumns:\n  - {name: order_id, type: long}\n",
        after="# live: order_id, amount; the view no longer reads amount\ncolumns:\n  - {name: order_id, type: long}\n",
        fix="Change the view's query first, or in the same run; or accept it with `suppress` and a reason.",
        suppressible=True,
    ),
    _kind(
        "LK302",
        "The identifier fields change",
        WARNING,
        why="Writers that upsert by key, such as Flink, take the key from the identifier fields. Rows written before "
        "and after follow different keys.",
        before="identifierFields: [order_id]\n",
        after="identifierFields: [order_id, line]\n",
        fix="Stop such writers, apply, then start them again with the new key.",
    ),
    _kind(
        "LK303",
        "A materialized view reads what moves",
        INFO,
        why="Nothing breaks, but the view's rows are those of before until it is refreshed.",
        before="columns:\n  - {name: amount, type: long}  # live: int; a view sums amount\n",
        after="columns:\n  - {name: amount, type: int}\n",
        fix="Refresh the view afterwards: `laketable refresh`, or `--include-upkeep`.",
    ),
    _kind(
        "LK304",
        "A source of the view is not there",
        ERROR,
        why="The view's columns and rows follow from its sources, so they come first. Only tables of the view's own "
        "catalog can be read.",
        before=_VIEW.replace("sales.orders", "sales.no_such_table"),
        after=_VIEW,
        fix="Check the name; or apply the manifest of that table first, or in the same run.",
    ),
    _kind(
        "LK305",
        "Materialized views read each other",
        ERROR,
        why="Each of them would have to be refreshed before the other, and none would ever be fresh.",
        before=_VIEW.replace("sales.orders", "sales.another_view_that_reads_this_one"),
        after=_VIEW,
        fix="Let one of them read the other's sources instead.",
    ),
    _kind(
        "LK306",
        "The query of the view is refused",
        ERROR,
        why="Only SELECTs over tables of the catalog, made of known functions, are ever given to Spark; everything "
        "else could read files, run code, or give other rows each time.",
        before="materializedView:\n  query: SELECT a, rand() AS r FROM sales.orders\n",
        after=_VIEW,
        fix="Write it with the sources' columns and the documented functions.",
    ),
    _kind(
        "LK307",
        "The columns of the view do not follow from its query",
        ERROR,
        why="A plan is made without Spark, so the type of each column must follow from the schemas of the sources, or "
        "be said. Columns that the manifest states must be those of the query.",
        before="materializedView:\n  query: SELECT make_timestamp(y, m, d, 0, 0, 0) AS at FROM sales.orders\n",
        after="materializedView:\n"
        "  query: SELECT CAST(make_timestamp(y, m, d, 0, 0, 0) AS TIMESTAMP) AS at FROM sales.orders\n",
        fix="Write `CAST(… AS type)` around it, or state all columns of the view under `columns`.",
    ),
)

_READERS = (
    _kind(
        "LK401",
        "A column is renamed",
        WARNING,
        why="The field id and all values stay, but a query that names the column by its former name fails from the "
        "next read on.",
        before="columns:\n  - {name: cust_id, type: string}\n",
        after="columns:\n  - {name: customer_ref, type: string, renamedFrom: cust_id}\n",
        fix="Move the readers in the same release, or give them a view with the former name.",
    ),
    _kind(
        "LK402",
        "The format version is raised",
        WARNING,
        why="Readers and writers that do not know the newer format version refuse the table, and there is no way back.",
        before="formatVersion: 2\n",
        after="formatVersion: 3\n",
        fix="Check every engine that touches the table first: version 3 needs Iceberg 1.8 or newer on the JVM.",
    ),
    _kind(
        "LK403",
        "The partitioning changes what an overwrite replaces",
        WARNING,
        why="A dynamic `INSERT OVERWRITE` replaces whole partitions of the current spec. With another spec the same "
        "statement replaces other rows.",
        before="partitioning: [{column: ordered_at, transform: month}]\n",
        after="partitioning: [{column: ordered_at, transform: day}]\n",
        fix="Give such jobs an explicit filter (`DELETE`, `MERGE` or `overwrite(condition)`) before applying.",
    ),
    _kind(
        "LK404",
        "This needs format version 3",
        ERROR,
        why="Defaults and the types timestamp_ns, timestamptz_ns, unknown, variant, geometry and geography do not "
        "exist in format version 2; a reader of version 2 fails on them or ignores them silently.",
        before="formatVersion: 2\ncolumns:\n  - {name: region, type: string, default: eu}\n",
        after="formatVersion: 3\ncolumns:\n  - {name: region, type: string, default: eu}\n",
        fix="Set `formatVersion: 3`, or leave the feature out.",
    ),
    _kind(
        "LK405",
        "A column cannot be an identifier field",
        ERROR,
        why="An identifier field is a required primitive, not float or double, and lies inside required structs only: "
        "otherwise two rows could not be told apart.",
        before="columns:\n  - {name: order_id, type: long}\nidentifierFields: [order_id]\n",
        after="columns:\n  - {name: order_id, type: long, required: true}\nidentifierFields: [order_id]\n",
        fix="Make the column required, or take it out of `identifierFields`.",
    ),
    _kind(
        "LK406",
        "The order of columns changes",
        INFO,
        why="`SELECT *` shows another order, and an `INSERT` that lists values by position fills other columns.",
        before="columns: [{name: a, type: int}, {name: b, type: int}]\n",
        after="columns: [{name: b, type: int}, {name: a, type: int}]\n",
        fix="Let writers name their columns (`INSERT INTO t (a, b)`, or by name).",
    ),
    _kind(
        "LK407",
        "The table cannot be partitioned or sorted like this",
        ERROR,
        why="The transform does not take the column's type, the column repeats inside a list or map, or two partition "
        "fields (or a partition field and another column) would have one name.",
        before="columns:\n  - {name: id, type: long}\npartitioning: [{column: id, transform: day}]\n",
        after="columns:\n  - {name: id, type: long}\npartitioning: [{column: id, transform: 'bucket[16]'}]\n",
        fix="Choose a transform for that type: year, month, day and hour take times; bucket and truncate plain values.",
    ),
    _kind(
        "LK408",
        "The format version cannot be lowered",
        ERROR,
        why="A table of a newer format version may already use what the older one cannot express.",
        before="formatVersion: 2   # live: 3\n",
        after="formatVersion: 3\n",
        fix="State the live version, or none.",
    ),
    _kind(
        "LK409",
        "The live table has another format",
        ERROR,
        why="A table's format is immutable; turning one into another means writing all of its data anew.",
        before="format: delta   # live: iceberg\n",
        after="format: iceberg\n",
        fix="State the live format, or make a new table under another identifier and copy the data.",
    ),
)

_COST = (
    _kind(
        "LK501",
        "Existing files keep their layout",
        INFO,
        why="A new partition spec or sort order holds for files written from now on. Files that exist stay as they are "
        "and remain readable; queries gain from the new layout only after a rewrite.",
        before="partitioning: []\n",
        after="partitioning: [{column: ordered_at, transform: day}]\n",
        fix="Nothing to do, or rewrite the old files with your engine (`rewrite_data_files`) when it pays.",
    ),
)

_HYGIENE = (
    _kind(
        "LK601",
        "The table has a column that the manifest does not name",
        WARNING,
        why="Somebody added it outside Git. With `unmanagedColumns: Warn` it is left alone and shown.",
        before="# live: order_id, debug\nunmanagedColumns: Warn\ncolumns:\n  - {name: order_id, type: long}\n",
        after="columns:\n  - {name: order_id, type: long}\n  - {name: debug, type: string}\n",
        fix="Add the column to the manifest, or set `unmanagedColumns` to Ignore, Adopt or Drop.",
    ),
    _kind(
        "LK602",
        "A suppression cannot take effect",
        WARNING,
        suppressible=False,
        why="It names a code that does not exist or that cannot be suppressed, or it gives no reason. A reviewer "
        "should be able to read why a warning was waved through.",
        before="suppress: [{code: LK999, reason: ''}]\n",
        after="suppress: [{code: LK101, path: cust_id, reason: 'unused since 2024'}]\n",
        fix="Correct the code, give a reason, or remove the suppression.",
    ),
    _kind(
        "LK603",
        "A suppression matches nothing",
        INFO,
        why="No finding of that code exists there any more. Left behind, it would hide the next one.",
        before="suppress: [{code: LK101, path: cust_id, reason: 'unused since 2024'}]\n",
        after="suppress: []\n",
        fix="Remove the suppression.",
    ),
    _kind(
        "LK604",
        "The table lies at another location",
        ERROR,
        suppressible=True,
        why="A location counts when the table is created. Moving a table means copying its files, which this version "
        "does not do.",
        before="location: s3://lake/new/orders   # live: s3://lake/orders\n",
        after="location: s3://lake/orders\n",
        fix="State the live location, or none.",
    ),
    _kind(
        "LK605",
        "A named column does not exist",
        ERROR,
        why="`partitioning`, `sortOrder`, `identifierFields` or `nestedFields` names a column that neither the "
        "manifest nor the table has.",
        before="columns:\n  - {name: id, type: long, required: true}\nidentifierFields: [order_id]\n",
        after="columns:\n  - {name: id, type: long, required: true}\nidentifierFields: [id]\n",
        fix="Correct the name, or add the column.",
    ),
    _kind(
        "LK606",
        "The column name is reserved",
        ERROR,
        why="Iceberg's readers add metadata columns under these names; a column of the same name cannot be selected.",
        before="columns:\n  - {name: _file, type: string}\n",
        after="columns:\n  - {name: file_name, type: string}\n",
        fix="Give the column another name.",
    ),
    _kind(
        "LK607",
        "A tag's time is over",
        INFO,
        why="`retain` says how long a tag or branch is kept, counted from its snapshot. It has expired, by our "
        "maintenance or by any other, and would expire again.",
        before="tags: [{name: q3-close, snapshot: {asOf: '2020-10-01T00:00:00Z'}, retain: 365d}]\n",
        after="tags: []\n",
        fix="Remove it from the manifest. While its snapshot is still there, a longer `retain` keeps it.",
    ),
    _kind(
        "LK608",
        "A metrics property names no column",
        ERROR,
        suppressible=True,
        why="Iceberg's Java library checks these keys whenever any property is set, and refuses while one of them "
        "names a column that is not there: no Spark job could change the table's properties any more.",
        before="columns:\n  - {name: total, type: long, renamedFrom: amount}\n"
        "properties: {write.metadata.metrics.column.amount: full}\n",
        after="columns:\n  - {name: total, type: long, renamedFrom: amount}\n"
        "properties: {write.metadata.metrics.column.total: full}\n",
        fix="Write the column's present name into the key, or remove the property.",
    ),
    _kind(
        "LK609",
        "A column's property names no column",
        WARNING,
        why="Bloom filters and statistics are turned on by keys that end in a column's name. A name that is no "
        "column's does nothing, which a rename or a drop may have brought about.",
        before="columns:\n  - {name: total, type: long, renamedFrom: amount}\n"
        "properties: {write.parquet.stats-enabled.column.amount: 'false'}\n",
        after="columns:\n  - {name: total, type: long, renamedFrom: amount}\n"
        "properties: {write.parquet.stats-enabled.column.total: 'false'}\n",
        fix="Write the column's present name into the key, or remove the property.",
    ),
)

KINDS: tuple[FindingKind, ...] = (*_DESTRUCTIVE, *_DATA, *_CONSUMERS, *_READERS, *_COST, *_HYGIENE)
REGISTRY: dict[str, FindingKind] = {kind.code: kind for kind in KINDS}
