"""One fault in a healthy project: how it gets there, what the program says, and that the mended project works."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.cli.lab import HEAD, Lab

ID = "name: id, type: long"
NOTE = "name: note, type: string"
PLAN = ("plan", "-f", "orders.yaml")
APPLY = ("apply", "-f", "orders.yaml", "--auto-approve")
GOOD = HEAD.format(name="orders") + "  columns:\n    - {name: id, type: long}\n    - {name: note, type: string}\n"


@dataclass(frozen=True)
class Case:
    """One fault: how it gets there, what the program is asked, what its one line says."""

    plant: Callable[[Lab], object]
    says: str
    args: Sequence[str] = PLAN
    code: int = 1
    mended: Sequence[str] | None = None
    mended_code: int = 0


def check(live: Lab, case: Case, mend: Callable[[], object]) -> None:
    case.plant(live)
    before = live.state()
    result = live.run(*case.args)
    assert result.code == case.code, result.out + result.err
    assert "Traceback" not in result.err
    assert len(result.err.splitlines()) == 1, result.err
    assert len(result.err) < 2_200
    assert case.says in result.err
    assert live.state() == before, "something changed"
    mend()
    healthy = live.run(*(case.args if case.mended is None else case.mended))
    assert healthy.code == case.mended_code, healthy.out + healthy.err


def kept(live: Lab) -> Callable[[], None]:
    """Keep a copy of the project; return what brings it back."""
    copy = live.folder.with_name("healthy")
    shutil.copytree(live.folder, copy)

    def mend() -> None:
        shutil.rmtree(live.folder)
        copy.rename(live.folder)

    return mend
