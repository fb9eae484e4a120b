"""The program on the star schema of the examples: apply, upkeep, refresh, lineage, what a drop would break."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.lab import EXAMPLES, Lab
from tests.inside import InProcess

PRODUCTS = [{"product_id": n, "name": f"p{n}", "category": "tea" if n < 2 else "jam"} for n in range(4)]


@pytest.fixture
def lab(jobs_inside: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    folder = tmp_path / "project"
    shutil.copytree(EXAMPLES / "star-schema", folder / "tables")
    return Lab(folder)


def sales(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {
            "sale_id": n,
            "product_id": n % 5,  # one product in five is in no dimension
            "sold_on": date(2026, 1, 1 + n % 3),
            "quantity": n % 4,
            "price": Decimal(n) / 4,
        }
        for n in range(first, first + count)
    ]


def model(rows: Sequence[Mapping[str, Any]]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Compute both views in plain Python."""
    categories: dict[object, str] = {p["product_id"]: str(p["category"]) for p in PRODUCTS}
    days: dict[tuple[date, str], list[Decimal]] = defaultdict(list)
    for row in rows:
        if row["product_id"] in categories:
            days[row["sold_on"], categories[row["product_id"]]].append(row["quantity"] * row["price"])
    daily = [(day, category, sum(amounts), len(amounts)) for (day, category), amounts in days.items()]
    whole = []
    for category in set(categories.values()):
        mine = [(revenue, count) for _, of, revenue, count in daily if of == category]
        whole.append((category, sum(r for r, _ in mine), max(r for r, _ in mine), sum(n for _, n in mine)))
    return sorted(daily), sorted(whole)


def views(lab: Lab) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    daily = [(r["sold_on"], r["category"], r["revenue"], r["sales"]) for r in lab.rows("shop.daily_revenue")]
    whole = [(r["category"], r["revenue"], r["best_day"], r["sales"]) for r in lab.rows("shop.categories")]
    return sorted(daily), sorted(whole)


def test_a_star_schema_with_a_view_on_a_view(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.ok("apply", "-f", "tables/sales.yaml", "-f", "tables/products.yaml", "--auto-approve")
    lab.load(PRODUCTS, "shop.products")
    lab.load(sales(0, 40), "shop.sales")
    lab.ok("apply", "-f", "tables", "--auto-approve")
    assert views(lab) == model(sales(0, 40))
    assert lab.run("plan", "-f", "tables", "--detailed-exitcode").code == 0
    # sources move: upkeep, no drift
    lab.load(sales(40, 10), "shop.sales")
    assert lab.run("plan", "-f", "tables", "--detailed-exitcode").code == 0
    shown = lab.run("plan", "-f", "tables", "--include-upkeep")
    assert "refresh incrementally: merge 1 new file of shop.sales" in " ".join(shown.out.split())
    assert lab.run("drift", "-f", "tables").code == 0
    assert "refreshed from the changes of shop.sales" in lab.ok("apply", "-f", "tables", "--include-upkeep").out
    assert views(lab) == model(sales(0, 50))
    # nothing moved: no job
    with monkeypatch.context() as patched:
        patched.setattr(InProcess, "run", lambda self, plan: pytest.fail("a job was started"))
        with lab.untouched("shop.daily_revenue"), lab.untouched("shop.categories"):
            assert lab.ok("refresh", "-f", "tables").out.count("fresh: its sources have not moved") == 2
    assert lab.process("refresh", "-f", "tables").code == 0
    # who reads what
    assert "revenue ← shop.sales.price, shop.sales.quantity" in lab.ok("lineage", "-f", "tables").out
    live = lab.ok("lineage", "--live", "-o", "mermaid").out
    assert 't0("shop.categories")' in live
    assert 't1 -->|"category, revenue, sales"| t0' in live
    path = lab.folder / "tables/sales.yaml"
    path.write_text(path.read_text().replace('    - {name: price, type: "decimal(10,2)"}\n', ""))
    dropped = lab.run("plan", "-f", "tables/sales.yaml")
    assert "LK301" in dropped.out
    assert "Materialized view shop.daily_revenue reads price" in " ".join(dropped.out.split())
    assert lab.run("apply", "-f", "tables/sales.yaml", "--auto-approve").code != 0
    assert "price" in lab.columns("shop.sales")
