from __future__ import annotations

from tests.bench import markdown


def test_a_table_is_markdown():
    assert markdown.table(["", "MB/s"], [["mm2 run", "400"], ["relay", "2,000"]]) == (
        "|  | MB/s |\n|---|---:|\n| mm2 run | 400 |\n| relay | 2,000 |"
    )
