"""Hostile files, plan files, wrong arguments: one clear line each, the right exit code, nothing changed.

Each case plants one fault in a healthy project, and mends it again: the mended project must work, or else the
case would prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.faults import APPLY, GOOD, ID, PLAN, Case, check, kept
from tests.cli.lab import HEAD, Lab
from tests.cli.test_broken_catalogs import CATALOGS, ENVIRONMENT, REST

# ---------------------------------------------------------------- files


def content(data: bytes | str) -> Callable[[Lab], object]:
    raw = data.encode() if isinstance(data, str) else data
    return lambda lab: (lab.folder / "orders.yaml").write_bytes(raw)


def folder_of(*names: str) -> Callable[[Lab], object]:
    def plant(lab: Lab) -> None:
        (lab.folder / "orders.yaml").unlink()
        (lab.folder / "orders.yaml").mkdir()
        for name in names:
            (lab.folder / "orders.yaml" / name).touch()

    return plant


def removed(lab: Lab) -> None:
    (lab.folder / "orders.yaml").unlink()


def link(target: str) -> Callable[[Lab], object]:
    def plant(lab: Lab) -> None:
        removed(lab)
        (lab.folder / "orders.yaml").symlink_to(target)

    return plant


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)
DEEP = "list<" * 5_000 + "int" + ">" * 5_000
MANY = "".join(f"    - {{name: c{i}, type: int}}\n" for i in range(10_001))
FILES = {
    "alias bomb": Case(content(GOOD + BOMB), "alias"),
    "alias of itself": Case(content(GOOD.replace("spec:", "spec: &s") + "  comment: *s\n"), "orders.yaml:"),
    "python object": Case(content(GOOD + "  comment: !!python/object/apply:os.system [id]\n"), "tag"),
    "deep nesting": Case(content("[" * 100_000), "nest"),
    "deep type": Case(content(GOOD.replace("type: string", f'type: "{DEEP}"')), "orders.yaml:7:"),
    "too many columns": Case(
        content(HEAD.format(name="orders") + "  columns:\n" + MANY), "10,001 items; at most 10,000"
    ),
    "huge file": Case(content(GOOD + "# " + "x" * (40 << 20)), "MiB"),
    "long name": Case(content(GOOD.replace("name: note", f"name: {'n' * 100_000}")), "orders.yaml:7:"),
    "not UTF-8": Case(content(GOOD.encode() + b"# caf\xe9\n"), "UTF-8"),
    "UTF-16": Case(content(GOOD.encode("utf-16")), "UTF-8"),
    "NUL byte": Case(content(GOOD.replace("string", "str\0ing")), "orders.yaml:7:"),
    "escape sequence": Case(content(GOOD.replace("name: note", 'name: "\\e[2Jnote\\n"')), "orders.yaml:7:"),
    "binary": Case(content(bytes(range(256)) * 10), "UTF-8"),
    "empty": Case(content(""), "There is no LakeTable in orders.yaml"),
    "only comments": Case(content("# nothing\n---\n# here\n"), "There is no LakeTable in orders.yaml"),
    "another kind": Case(content("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"), "A ConfigMap is not a"),
    "two documents, one broken": Case(content(GOOD + "---\n" + GOOD.replace("string", "strng")), "orders.yaml:15:26: "),
    "the same table twice": Case(content(GOOD + "---\n" + GOOD), "is declared twice: here and at orders.yaml:1"),
    "name that YAML reads as a number": Case(content(GOOD.replace("name: note", "name: 0x1F")), "orders.yaml:7:"),
    "not there": Case(removed, "There is no file or folder 'orders.yaml'"),
    "dangling link": Case(
        link("gone"),
        "There is no file or folder 'orders.yaml'",
    ),
    "empty folder": Case(folder_of(), "holds no .yaml"),
    "folder of other files": Case(folder_of("README.md", ".hidden.yaml"), "holds no .yaml"),
    "unreadable": Case(
        link("/proc/self/mem"),
        "Cannot read 'orders.yaml'",
    ),
    "glob without a match": Case(lambda lab: None, "There is no file", ("plan", "-f", "nothing-*.yaml"), mended=PLAN),
    "two catalogs of one name": Case(
        lambda lab: [
            lab.write(
                f"{name}.yaml",
                "apiVersion: laketable.dev/v1alpha1\nkind: LakeCatalog\nmetadata: {name: x, namespace: y}\nspec: {}\n",
            )
            for name in ("one", "two")
        ],
        "LakeCatalog x is declared twice",
    ),
    "broken policy beside it": Case(
        lambda lab: lab.write("policy.yaml", "kind: LakePolicy\napiVersion: laketable.dev/v1alpha1\nspec: {}\n"),
        "policy.yaml:",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file(live: Lab, name: str) -> None:
    check(live, FILES[name], kept(live))


def test_every_error_of_every_file_is_told_at_once(lab: Lab) -> None:
    lab.manifest(["name: id, type: lnog", "name: x, type: strng"], name="a", file="t/a.yaml")
    lab.manifest([ID], "colour: blue", name="b", file="t/b.yaml")
    result = lab.run("plan", "-f", "t")
    assert result.code == 1
    assert [line.split(": ")[1] for line in result.errors] == ["t/a.yaml:6:24", "t/a.yaml:7:23", "t/b.yaml:7:3"]
    assert len(result.err.splitlines()) == 3


# ---------------------------------------------------------------- plan files and arguments


def plan_file(change: Callable[[bytes], bytes]) -> Callable[[Lab], object]:
    def plant(lab: Lab) -> None:
        path = lab.folder / "plan.json"
        path.write_bytes(change(path.read_bytes()))

    return plant


def nothing(lab: Lab) -> None:
    """The fault is in the arguments."""


FROM_PLAN = ("apply", "plan.json", "--auto-approve")
SHOWN = ("show", "plan.json")
ARGUMENTS = {
    "plan file changed": Case(plan_file(lambda b: b.replace(b"string", b"binary")), "was changed after", FROM_PLAN),
    "plan file cut": Case(plan_file(lambda b: b[: len(b) // 2]), "plan.json: This is not a plan document", FROM_PLAN),
    "plan file empty": Case(plan_file(lambda b: b""), "plan.json: This is not a plan document", SHOWN),
    "plan file of the future": Case(
        plan_file(lambda b: b.replace(b'"version": 1', b'"version": 7', 1)), "has version 7", FROM_PLAN
    ),
    "plan file of another program": Case(plan_file(lambda b: b'{"kind": "Pod"}'), "its kind is not", FROM_PLAN),
    "manifest for a plan file": Case(
        nothing, "orders.yaml: This is not a plan", ("apply", "orders.yaml"), mended=SHOWN
    ),
    "plan file that is not there": Case(nothing, "'nope.json'", ("apply", "nope.json"), mended=SHOWN),
    "neither file nor plan": Case(nothing, "with -f, or one plan file", ("apply",), mended=SHOWN),
    "file and plan": Case(nothing, "or one plan file", ("apply", "-f", "orders.yaml", "plan.json"), mended=SHOWN),
    "approval that is no hash": Case(
        nothing, "'yes' is not a plan's hash", (*APPLY[:3], "--approve", "yes"), mended=SHOWN
    ),
    "approval that is short": Case(
        nothing, "is not a plan's hash", (*APPLY[:3], "--approve", "sha256:abc"), mended=SHOWN
    ),
    "approval of another plan": Case(
        nothing, "No plan has the approved hash", (*APPLY[:3], "--approve", "f" * 64), code=4, mended=SHOWN
    ),
    "unknown command": Case(nothing, "Did you mean 'plan'?", ("paln", "-f", "orders.yaml"), mended=PLAN),
    "unknown option": Case(nothing, "--ouput", (*PLAN, "--ouput", "json"), mended=(*PLAN, "--output", "json")),
    "unknown output": Case(nothing, "'xml'", (*PLAN, "-o", "xml"), mended=(*PLAN, "-o", "sarif")),
    "unknown engine": Case(nothing, "'flink'", (*APPLY, "--engine", "flink"), mended=(*APPLY, "--engine", "catalog")),
    "no file named": Case(nothing, "'-f'", ("plan",), mended=PLAN),
    "plan to nowhere": Case(
        nothing, "Cannot write 'no/p.json'", (*PLAN, "--out", "no/p.json"), mended=(*PLAN, "--out", "p.json")
    ),
    "against and out": Case(nothing, "--against", (*PLAN, "--against", "git:x", "--out", "p"), mended=PLAN),
    "outside of a repository": Case(nothing, "repository", (*PLAN, "--changed-since", "main"), mended=PLAN),
    "undo of no table": Case(
        nothing, "There is no such table", ("undo", "sales.nope"), mended=("history", "sales.orders")
    ),
    "history of half a name": Case(
        nothing, "Write <namespace>.<table>", ("history", "orders"), mended=("history", "sales.orders")
    ),
    "show of a name with a slash": Case(
        nothing, "sales/orders", ("show", "sales/orders"), mended=("show", "sales.orders")
    ),
    "import of nothing": Case(nothing, "--all", ("import",), mended=("import", "--all")),
    "import of no namespace": Case(nothing, "no namespace 'nope'", ("import", "nope"), mended=("import", "sales")),
    "import of no table": Case(nothing, "There is no such table", ("import", "sales.nope"), mended=("import", "sales")),
    "import into a file": Case(
        nothing, "orders.yaml", ("import", "sales", "--output-dir", "orders.yaml"), mended=("import", "sales")
    ),
    "unknown code": Case(nothing, "There is no finding 'LK999'", ("explain", "LK999"), mended=("explain", "LK104")),
    "unknown shell": Case(nothing, "'cmd'", ("completion", "cmd"), mended=("completion", "zsh")),
    "unknown catalog": Case(
        nothing,
        "No catalog is called 'x'",
        ("show", "sales.orders", "--catalog", "x"),
        mended=("show", "sales.orders", "--catalog", "lake"),
    ),
    "init over a file": Case(nothing, "orders.yaml", ("init", "orders.yaml"), mended=("init", "fresh")),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_bad_argument(live: Lab, name: str) -> None:
    live.ok("plan", "-f", "orders.yaml", "--out", "plan.json")
    check(live, ARGUMENTS[name], kept(live))


def test_there_are_enough_cases() -> None:
    assert len(FILES) + len(CATALOGS) + len(REST) + len(ENVIRONMENT) + len(ARGUMENTS) >= 70
