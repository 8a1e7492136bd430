from __future__ import annotations

import click
import pytest

from mm2.app.cli import byte_rate


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("20MB", 20_000_000),
        ("20MB/s", 20_000_000),
        ("20 mb", 20_000_000),
        ("1.5M", 1_500_000),
        ("500kB", 500_000),
        ("1GiB", 1 << 30),
        ("2GB", 2_000_000_000),
        ("64KiB", 65_536),
        ("123456", 123_456),
        ("123456B/s", 123_456),
    ],
)
def test_rates(text, rate):
    assert byte_rate.ByteRate().convert(text, None, None) == rate


@pytest.mark.parametrize(
    "text", ["", "MB", "-5MB", "20 MBit", "0", "10B", "1e6", "20MB/h", "\u0661MB"]
)
def test_anything_else_is_refused_with_what_is_allowed(text):
    with pytest.raises(click.BadParameter, match="allowed"):
        byte_rate.ByteRate().convert(text, None, None)
