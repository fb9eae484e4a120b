"""YAML in, plain data out: the core schema, and a place for everything that is refused."""

from __future__ import annotations

import pytest

from reconciler.errors import InvalidInput
from reconciler.model import yaml as loader
from reconciler.model.yaml import Data, Positions, decode, load_all


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("y", "y"),
        ("2026-01-01", "2026-01-01"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("12:30:00", "12:30:00"),
        ("1_000", "1_000"),
        ("0b101", "0b101"),
        ("3e5", 300000.0),
        ("0755", 755),
        ("0o17", 15),
        ("0x1F", 31),
        ("-7", -7),
        (".5", 0.5),
        ("1.", 1.0),
        ("9223372036854775807", 9223372036854775807),
        ("true", True),
        ("FALSE", False),
        ("yes", "yes"),
        ("~", None),
        ("", None),
        ("null", None),
        ("'null'", "null"),
        ('"1"', "1"),
        ("!!str 1", "1"),
        ("!!int '1'", 1),
        ("1.2.3", "1.2.3"),
        ("-", None),
    ],
)
def test_scalars_resolve_as_in_yaml_12(text: str, value: Data) -> None:
    expected: Data = [None] if text == "-" else value
    assert load_all(f"a: {text}" if text != "-" else "a:\n  -", "f") == [{"a": expected}]


def test_many_documents_empty_ones_included() -> None:
    assert load_all("a: 1\n---\n---\n- b\n", "f") == [{"a": 1}, None, ["b"]]


def test_anchors_and_merge_keys_work() -> None:
    text = "base: &b {x: 1, y: 2}\nother: {<<: *b, y: 3}\nmany:\n  <<: [{a: 1}, {a: 2, b: 2}]\n"
    assert load_all(text, "f") == [{"base": {"x": 1, "y": 2}, "other": {"x": 1, "y": 3}, "many": {"a": 1, "b": 2}}]


BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 10)}]\n" for i in range(8)
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("a: 1\na: 2", "f:2:1: YAML: the key 'a' occurs twice. Remove one of them.", id="duplicate"),
        pytest.param("x:\n  b: {c: 1, c: 2}", "f:2:13: YAML: the key 'c' occurs twice.", id="nested-duplicate"),
        pytest.param("a:\n\tb: 1", "f:2:1: YAML: a tab is used for indentation. Use spaces.", id="tab"),
        pytest.param("a: @x", "f:1:4: YAML: a value cannot start with '@'. Put the value in quotes.", id="at-sign"),
        pytest.param("a: b: c", "f:1:5: YAML: a ':' is not allowed here.", id="colon"),
        pytest.param("a: [1, 2", "f:2:1: YAML: a list opened with '[' is not closed", id="open-list"),
        pytest.param("a: {b: 1", "f:2:1: YAML: a mapping opened with '{' is not closed", id="open-mapping"),
        pytest.param("a: 'x\n\n", "f:3:1: YAML: the text ends inside a quoted string (started at line 1).", id="quote"),
        pytest.param("a: 1\n b: 2", "f:2:3: YAML: a ':' is not allowed here.", id="indent"),
        pytest.param("- a\nb: c", "f:2:1: YAML: a list item ('- ') is expected here", id="list-then-key"),
        pytest.param("a: *b", "f:1:4: YAML: an alias (*name) names no anchor (&name).", id="alias"),
        pytest.param("a: &x [*x]", "f:1:4: YAML: an alias contains itself.", id="recursive-alias"),
        pytest.param(BOMB, "f:4:4: YAML: aliases of this anchor expand to more than 100,000 values.", id="bomb"),
        pytest.param("[" * 101, "f:1:100: YAML: nested more than 100 levels deep.", id="deep"),
        pytest.param("1: a", "f:1:1: YAML: the key 1 is not text. Write '1' in quotes.", id="number-key"),
        pytest.param("a: {{ x }}", "f:1:5: YAML: a key must be text.", id="template"),
        pytest.param("a: !!python/name:os.system x", "f:1:4: YAML: the tag '!!python/name:os.system'", id="tag"),
        pytest.param("a: .nan", "f:1:4: YAML: a number must be finite.", id="nan"),
        pytest.param("a: ü\x01", "f:1:5: YAML: the character U+0001 is not allowed.", id="control-character"),
        pytest.param("a: %x", "f:1:4: YAML: a value cannot start with '%'.", id="percent"),
        pytest.param('a: "\\q"', "f:1:5: YAML: an unknown escape in a double-quoted string", id="escape"),
    ],
)
def test_each_refusal_names_its_place(text: str, line: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_all(text, "f")
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_a_smaller_bomb_is_no_bomb() -> None:
    assert len(str(load_all(BOMB.split("e: ")[0], "f"))) > 10_000


def test_bytes_must_be_utf8() -> None:
    with pytest.raises(InvalidInput) as caught:
        decode("a: 1\nb: é".encode("latin-1"), "f")
    assert str(caught.value) == "f:2:4: byte 0xe9 is not UTF-8. Save the file as UTF-8."


def test_a_byte_order_mark_is_no_content() -> None:
    assert decode(b"\xef\xbb\xbfa: 1", "f") == "a: 1"


def test_huge_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "MAX_BYTES", 2 * 1024 * 1024)
    with pytest.raises(InvalidInput) as caught:
        decode(b"#" * (3 * 1024 * 1024), "f")
    text = "f: this is 3.0 MiB; a manifest file may have at most 2 MiB. Split it into several files."
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("path", "key", "place"),
    [
        (("a",), False, (1, 4, 0)),
        (("a",), True, (1, 1, 0)),
        (("b", 1, "c"), False, (4, 8, 1)),
        (("b", 1, "missing"), True, (4, 5, -1)),
        (("b", 7), False, (3, 3, -1)),
        (("d",), False, (5, 4, -1)),
    ],
)
def test_positions(path: tuple[str | int, ...], key: bool, place: tuple[int, int, int]) -> None:
    positions = Positions("a: x\nb:\n  - c: y\n  - c: 'z'\nd: \"a\\tb\"\n")
    assert positions.find(0, path, key=key) == place
