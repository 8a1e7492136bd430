from __future__ import annotations

import pytest

from mm2.app import figures


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "-"), (0, "0"), (0.25, "0.2"), (7, "7"), (9.97, "10"), (1234567.4, "1,234,567")],
)
def test_counts(number, text):
    assert figures.count(number) == text


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
    assert figures.megabytes(size) == text


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
    assert figures.size(number) == text


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
    assert figures.duration(seconds) == text
