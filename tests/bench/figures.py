"""Percentiles, medians with their range, ratios: what the measurements become. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The median of several rounds, the least and the greatest of them."""

    median: float
    low: float
    high: float


def spread(samples: Sequence[float]) -> Spread | None:
    """None when nothing was measured."""
    if not samples:
        return None
    return Spread(median=statistics.median(samples), low=min(samples), high=max(samples))


def percentile(samples: Sequence[float], share: float) -> float:
    """By nearest rank: the least sample that at least `share` (0 < share <= 1) do not exceed."""
    if not samples:
        raise ValueError("no samples")
    if not 0 < share <= 1:
        raise ValueError(f"share {share} is not in (0, 1]")
    ranked = sorted(samples)
    # Decimal shares are not exact in binary: 0.999 * 1000 must be rank 999, not 1000.
    rank = -int(-(share * len(ranked) - 1e-9) // 1)
    return ranked[max(1, rank) - 1]


def ratio(of: Spread | None, to: Spread | None) -> float | None:
    """Median by median; None where one is missing or there is nothing to divide by."""
    if of is None or to is None or to.median == 0:
        return None
    return of.median / to.median


def number(value: float) -> str:
    """Three digits that count, thousands marked: `0.82`, `46.1`, `1,310,000`."""
    if value != value:
        return "-"
    size = abs(value)
    if size >= 100:
        digits = len(f"{size:.0f}")
        return f"{round(value, -max(0, digits - 3)):,.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}"


def with_range(of: Spread | None) -> str:
    """`46.1 (44.0-47.2)`: median, least, greatest; of a single round just the figure."""
    if of is None:
        return "-"
    if of.low == of.high:
        return number(of.median)
    return f"{number(of.median)} ({number(of.low)}-{number(of.high)})"
