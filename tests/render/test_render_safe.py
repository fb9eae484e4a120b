import pytest

from reconciler.render.grid import Cell, Style, grid, wrap
from reconciler.render.safe import clean, code, display_width, fence, markdown

HOSTILE = {
    "ansi": ("\x1b[2K\x1b[1Aok", r"\x1b[2K\x1b[1Aok"),
    "c1-csi": ("\x9b31m", r"\x9b31m"),
    "newline": ("a\n- fake", r"a\n- fake"),
    "carriage-return": ("drop\rkeep", r"drop\rkeep"),
    "bidi-override": ("a\u202eb", r"a\u202eb"),
    "bidi-isolate": ("a\u2066b", r"a\u2066b"),
    "zero-width": ("a\u200bb", r"a\u200bb"),
    "line-separator": ("a\u2028b", r"a\u2028b"),
    "tag-characters": ("a\U000e0041b", r"a\U000e0041b"),
    "lone-surrogate": ("a\ud800b", r"a\ud800b"),
}


@pytest.mark.parametrize(("text", "shown"), [pytest.param(*case, id=name) for name, case in HOSTILE.items()])
def test_clean_spells_out_what_could_act(text: str, shown: str) -> None:
    assert clean(text) == shown
    assert clean(text).isprintable()


@pytest.mark.parametrize("text", ["plain", "größe", "注文", "naïve café", "emoji 🧊"])
def test_clean_leaves_words_alone(text: str) -> None:
    assert clean(text) == text


def test_clean_says_how_long_a_cut_text_was() -> None:
    assert clean("x" * 5_000, 3) == "xxx… (5,000 characters)"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("@team/leads", "@\u200bteam/leads", id="mention"),
        pytest.param("fixes #12", "fixes #\u200b12", id="reference"),
        pytest.param("see https://evil.example", "see h\u200bttps://evil.example", id="autolink"),
        pytest.param("<img src=x>", "&lt;img src=x&gt;", id="html"),
        pytest.param("![x](y)", "!\\[x\\](y)", id="image"),
        pytest.param("a|b", "a&#124;b", id="pipe"),
        pytest.param("a`b", "a\\`b", id="back-tick"),
        pytest.param("a\\`b", "a\\\\\\`b", id="escaped-back-tick"),
        pytest.param("<!-- laketable:plan -->", "&lt;!-- laketable:plan --&gt;", id="comment"),
    ],
)
def test_markdown_makes_no_markup(text: str, shown: str) -> None:
    assert markdown(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("sales.orders", "`sales.orders`"),
        ("a|b", "<code>a&#124;b</code>"),
        ("a`b", "<code>a\\`b</code>"),
        (" a", "<code> a</code>"),
        ("</code><script>", "`</code><script>`"),
        ("`</code>", "<code>\\`&lt;/code&gt;</code>"),
        ("", ""),
    ],
)
def test_code_cannot_be_ended_from_inside(text: str, shown: str) -> None:
    assert code(text) == shown


def test_fence_is_longer_than_any_run_inside() -> None:
    assert fence("a\n`````\nb", "text") == "``````text\na\n`````\nb\n``````"


def test_display_width_counts_terminal_cells() -> None:
    assert [display_width(text) for text in ("abc", "注文", "e\u0301")] == [3, 4, 1]


def test_wrap_breaks_at_spaces_then_inside_words() -> None:
    assert wrap("one two three", 7) == ["one two", "three"]
    assert wrap("abcdefghij", 4) == ["abcd", "efgh", "ij"]
    assert wrap("注文注文", 5) == ["注文", "注文"]


def test_grid_aligns_wide_characters_and_keeps_within_the_width() -> None:
    rows = [
        (Cell("注文"), Cell("x")),
        (Cell("ab"), Cell("a longer text that has to be wrapped in its own column, twice")),
    ]
    lines = grid(rows, width=60)
    assert lines[0] == "注文  x"
    assert lines[1].startswith("ab    a longer")
    assert all(display_width(line) <= 60 for line in lines)


def test_grid_colours_the_text_and_not_the_padding() -> None:
    rows = [(Cell("a", Style.ADD), Cell("1", right=True)), (Cell("bbb"), Cell("22", right=True))]
    assert grid(rows, width=60, color=True) == ["\x1b[32ma\x1b[0m     1", "bbb  22"]
