"""`laketable init`: a first manifest to edit, and local state kept out of Git."""

from __future__ import annotations

from pathlib import Path

import click

from reconciler.catalogs.connection import PROJECT_FOLDER
from reconciler.cli.console import note, say
from reconciler.errors import InvalidInput

MANIFEST = """\
# A table as it should be. Check it: laketable plan -f {path}
apiVersion: laketable.dev/v1alpha1
kind: LakeTable
metadata: {{name: orders, namespace: sales}}
spec:
  columns:
    - {{name: order_id, type: long, required: true}}
    - {{name: customer, type: string, doc: Customer key}}
    - {{name: amount, type: "decimal(18,2)"}}
    - {{name: ordered_at, type: timestamptz, required: true}}
  partitioning:
    - {{column: ordered_at, transform: day}}
"""


@click.command("init")
@click.argument("folder", default="tables", type=click.Path(file_okay=False))
def command(folder: str) -> None:
    """Write FOLDER/orders.yaml (default: tables/orders.yaml) and ignore .laketable/ in Git; overwrites nothing."""
    path = Path(folder) / "orders.yaml"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x") as file:
            file.write(MANIFEST.format(path=path))
        _ignore(Path(".gitignore"))
    except FileExistsError as error:
        raise InvalidInput(f"{path} exists already.", hint="Name another folder.") from error
    except OSError as error:
        raise InvalidInput(f"Cannot write {path}: {error.strerror}.", hint="Name another folder.") from error
    say(f"Wrote {path}.")
    note(f"Next: laketable plan -f {folder}, then laketable apply -f {folder}.")
    note("Unless another catalog is configured, both use the embedded one below .laketable/ ('laketable catalogs').")


def _ignore(path: Path) -> None:
    line = f"{PROJECT_FOLDER}/"
    lines = path.read_text().splitlines() if path.exists() else []
    if line not in lines:
        path.write_text("\n".join([*lines, line]) + "\n")
