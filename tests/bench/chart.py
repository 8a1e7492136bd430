"""The plot of README: replication speed against Java MirrorMaker 2, from the table in
docs/benchmarks.md.

python -m tests.bench.chart    # writes docs/pictures/speed.svg
"""

from __future__ import annotations

import html
import math
import re
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).parents[2]
BENCHMARKS = _ROOT / "docs" / "benchmarks.md"
CHART = _ROOT / "docs" / "pictures" / "speed.svg"

_ROW = re.compile(r"^\| ([^|]+) \| ([\d,.]+) \| ([\d,.]+) \| ([\d,.]+) \|(?: [\d.]+x \|){4}$", re.M)
_LABEL_WIDTH, _PLOT_WIDTH, _ROW_HEIGHT, _TOP = 430, 430, 34, 84
_LOWEST, _HIGHEST = 0.9, 250.0
_TICKS = (1, 2, 5, 10, 20, 50, 100, 200)
_TUNED, _OURS = "#9aa5b1", "#2563eb"


class Speed(NamedTuple):
    """Records per second of one workload."""

    workload: str
    java_defaults: float
    java_tuned: float
    ours: float


def read_speeds(page: str) -> list[Speed]:
    """The rows of the throughput table in the benchmarks page."""
    return [
        Speed(row[1], *(float(row[cell].replace(",", "")) for cell in (2, 3, 4)))
        for row in _ROW.finditer(page)
    ]


def draw(speeds: list[Speed]) -> str:
    """An SVG: a group of two bars for each workload, on a logarithmic axis."""
    width, height = _LABEL_WIDTH + _PLOT_WIDTH + 70, _TOP + _ROW_HEIGHT * len(speeds) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'font-family="system-ui, sans-serif" font-size="12" fill="#1f2933">',
        "<title>Records per second, relative to Java MirrorMaker 2 with default settings</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        '<text x="12" y="24" font-size="15" font-weight="600">Records per second, relative to '
        "Java MirrorMaker 2 with default settings (1x)</text>",
        *_legend(12, _TUNED, "Java MirrorMaker 2, tuned"),
        *_legend(220, _OURS, "mm2"),
    ]
    for tick in _TICKS:
        x = _position(tick)
        parts.append(f'<path d="M{x:.1f} {_TOP - 8}V{height - 12}" stroke="#e4e7eb"/>')
        parts.append(f'<text x="{x:.1f}" y="{_TOP - 14}" text-anchor="middle">{tick}x</text>')
    for number, each in enumerate(speeds):
        y = _TOP + number * _ROW_HEIGHT
        parts.append(
            f'<text x="{_LABEL_WIDTH - 8}" y="{y + 18}" text-anchor="end">'
            f"{html.escape(each.workload)}</text>"
        )
        parts += _bar(y + 2, each.java_tuned / each.java_defaults, _TUNED)
        parts += _bar(y + 15, each.ours / each.java_defaults, _OURS)
    return "\n".join([*parts, "</svg>", ""])


def _legend(x: int, color: str, text: str) -> list[str]:
    return [
        f'<rect x="{x}" y="38" width="12" height="12" fill="{color}"/>',
        f'<text x="{x + 18}" y="48">{text}</text>',
    ]


def _bar(y: int, ratio: float, color: str) -> list[str]:
    start, end = _position(_LOWEST), _position(ratio)
    return [
        f'<rect x="{start:.1f}" y="{y}" width="{end - start:.1f}" height="12" fill="{color}"/>',
        f'<text x="{end + 4:.1f}" y="{y + 10}" font-size="11">{ratio:.3g}x</text>',
    ]


def _position(ratio: float) -> float:
    share = math.log(ratio / _LOWEST) / math.log(_HIGHEST / _LOWEST)
    return _LABEL_WIDTH + _PLOT_WIDTH * share


if __name__ == "__main__":
    CHART.write_text(draw(read_speeds(BENCHMARKS.read_text())))
