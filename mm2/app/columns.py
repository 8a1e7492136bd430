"""Plain columns, as Kafka's own tools print them: left-aligned, two blanks between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from connect_runtime.base import terminal_escape


def lines(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The names first. Nothing is cut: lines are for `grep` and `awk`, too."""
    rows = [[terminal_escape.escape(cell) for cell in row] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(names, *rows, strict=True)]
    for row in (names, *rows):
        yield "  ".join(
            f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)
        ).rstrip()
