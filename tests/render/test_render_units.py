import pytest

from reconciler.render.units import duration, plural, short_count, size


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (1_023, "1023 B"),
        (1_024, "1 KiB"),
        (1_536, "1.5 KiB"),
        (2**20 - 1, "1.0 MiB"),
        (412 * 2**30, "412 GiB"),
    ],
)
def test_size(number: int, text: str) -> None:
    assert size(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (9_999, "9,999"), (10_000, "10 K"), (999_999, "1 M"), (3_100_000_000, "3.1 B")],
)
def test_short_count(number: int, text: str) -> None:
    assert short_count(number) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0ms"),
        (40, "40ms"),
        (2_500, "2.5s"),
        (60_000, "1m"),
        (5_400_000, "1h 30m"),
        (604_800_000, "7d"),
        (86_460_000, "1d"),
        (-1_000, "-1s"),
    ],
)
def test_duration(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


def test_plural() -> None:
    assert plural(1, "file") == "1 file"
    assert plural(1_204, "file") == "1,204 files"
