"""Golden files: a test compares its product with a checked-in file; `--update-golden` rewrites the file instead."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent / "golden"


class Golden:
    """Compares texts with files under tests/golden, or rewrites those."""

    def __init__(self, update: bool) -> None:
        self.update = update

    def check(self, name: str, text: str) -> None:
        """Want `text` to be what the golden file `name` holds."""
        self.check_file(ROOT / name, text)

    def check_file(self, path: Path, text: str) -> None:
        """Want `text` to be what a generated file anywhere in the repository holds."""
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.exists(), f"{path} is missing; run pytest with --update-golden and review what it writes"
        found = path.read_text(encoding="utf-8")
        assert text == found, f"differs from {path}; if that is meant, run pytest with --update-golden and review it"
