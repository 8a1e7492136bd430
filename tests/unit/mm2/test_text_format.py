from __future__ import annotations

import pytest

from mm2 import text_format


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "-"),
        (0, "1970-01-01T00:00:00Z"),
        (1_795_358_400_000, "2026-11-22T14:40:00Z"),
        (-1, "1969-12-31T23:59:59Z"),
        (253_402_300_800_001, "253402300800001 ms"),
        (-(10**15), "-1000000000000000 ms"),
        (2**63 - 1, "9223372036854775807 ms"),
        (-(2**63), "-9223372036854775808 ms"),
    ],
)
def test_every_timestamp_of_a_record_can_be_shown(ms, text):
    assert text_format.format_time(ms) == text


def test_columns_are_as_wide_as_what_stands_in_them():
    found = list(text_format.format_columns(("TOPIC", "LAG"), [("orders", "1"), ("b", "1000")]))
    assert found == ["TOPIC   LAG", "orders  1", "b       1000"]


def test_a_long_cell_shifts_its_own_row_alone():
    rows = [("g" * 5000, "1"), *[("short", "2")] * 8]
    _, long, *others = text_format.format_columns(("GROUP", "LAG"), rows)
    assert long == "g" * 5000 + "  1"
    assert {len(line) for line in others} == {text_format.MAX_COLUMN_CHARS + 3}


def test_without_rows_there_are_the_names():
    assert list(text_format.format_columns(("TOPIC", "LAG"), [])) == ["TOPIC  LAG"]


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "-"), (0, "0"), (0.25, "0.2"), (7, "7"), (9.97, "10"), (1234567.4, "1,234,567")],
)
def test_counts(number, text):
    assert text_format.format_count(number) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "-"),
        (0, "0.0"),
        (1_000, "0.0"),
        (1_234_000, "1.2"),
        (99_960_000, "100"),
        (5e9, "5,000"),
    ],
)
def test_megabytes(size, text):
    assert text_format.format_megabytes(size) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (999_960, "1.0 MB"),
        (1_300_000_000, "1.3 GB"),
    ],
)
def test_sizes(number, text):
    assert text_format.format_size(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0 s"),
        (0.04, "0 s"),
        (0.26, "0.3 s"),
        (9.96, "10 s"),
        (119, "119 s"),
        (119.6, "2.0 min"),
        (7_199, "120.0 min"),
        (7_200, "2.0 h"),
        (86_400 * 3, "3.0 d"),
    ],
)
def test_durations(seconds, text):
    assert text_format.format_duration(seconds) == text
