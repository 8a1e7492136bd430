from __future__ import annotations

from mm2.app import columns


def test_columns_are_as_wide_as_what_stands_in_them():
    found = list(columns.lines(("TOPIC", "LAG"), [("orders", "1"), ("b", "1000")]))
    assert found == ["TOPIC   LAG", "orders  1", "b       1000"]


def test_without_rows_there_are_the_names():
    assert list(columns.lines(("TOPIC", "LAG"), [])) == ["TOPIC  LAG"]
