"""`laketable explain`: what a finding code means, with an example and the fix."""

from __future__ import annotations

import click

from reconciler.cli.console import say
from reconciler.errors import InvalidInput
from reconciler.plan.finding_codes import REGISTRY
from reconciler.plan.findings import finding_page


@click.command("explain")
@click.argument("code", required=False)
def command(code: str | None) -> None:
    """Explain a finding CODE such as LK104; without one, list them all."""
    if code is None:
        for known, kind in REGISTRY.items():
            say(f"{known}  {kind.title}")
        return
    wanted = code.upper()
    if wanted not in REGISTRY:
        raise InvalidInput(f"There is no finding '{code}'.", hint="'laketable explain' lists the codes.")
    say(finding_page(wanted))
