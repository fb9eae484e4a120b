"""`laketable fmt` changes what it must and no byte more, wherever it runs."""

from __future__ import annotations

from tests.cli.lab import HEAD, Lab


def test_line_ends_and_letters_are_kept_in_a_locale_without_them(lab: Lab) -> None:
    text = HEAD.format(name="orders") + "  columns:  # Größe\n    - {type: bigint, name: größe}\n"
    path = lab.folder / "orders.yaml"
    path.write_bytes(text.replace("\n", "\r\n").encode())
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    result = lab.process("fmt", "-f", "orders.yaml", environ=ascii_only)
    assert result.code == 0, result.err
    formatted = text.replace("{type: bigint, name: größe}", "{name: größe, type: long}")
    assert path.read_bytes() == formatted.replace("\n", "\r\n").encode()
