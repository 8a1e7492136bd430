"""Average, minimum, maximum and rate over recent time windows, as in Kafka's metrics.

Values are collected in windows, and only the newest windows are kept. A result therefore covers
about the last `windows` x `window_s` seconds at constant cost. Java: `SampledStat` with `Avg`,
`Max`, `Min`, `Rate` and `Frequencies`, and `CumulativeSum` for the total.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleWindows:
    """Window settings: `metrics.sample.window.ms` (converted to seconds) and
    `metrics.num.samples`."""

    window_s: float = 30.0
    windows: int = 2

    def __post_init__(self) -> None:
        assert self.window_s > 0.0, self.window_s
        assert self.windows >= 1, self.windows

    @property
    def span_s(self) -> float:
        """Total period that all windows cover, in seconds."""
        return self.windows * self.window_s


@dataclass(slots=True)
class _SampleWindow:
    begun_s: float
    last_s: float
    count: int = 0
    sum: float = 0.0
    max: float = -math.inf
    min: float = math.inf


class WindowedValues(NamedTuple):
    """Statistics over the most recent time windows, computed at one point in time.

    `avg`, `max` and `min` are NaN if the windows contain no values.
    """

    total: float
    """Sum of all values ever observed, including those before the windows."""
    avg: float
    max: float
    rate: float
    """Sum of the values in the windows, divided by the period of the windows in seconds."""
    count_rate: float
    """Number of values in the windows, divided by the period of the windows in seconds."""
    min: float

    @property
    def share_of_ones(self) -> float:
        """Fraction of ones among recent values of a 0/1 statistic; 0 if there are no recent
        values."""
        return 0.0 if math.isnan(self.avg) else self.avg

    @property
    def share_of_zeros(self) -> float:
        """Fraction of zeros among recent values of a 0/1 statistic; 0 if there are no recent
        values."""
        return 0.0 if math.isnan(self.avg) else 1.0 - self.avg


@dataclass(slots=True)
class WindowedStat:
    """Collects observations in time windows. `now_s` must not decrease from call to call.

    Invariant: windows are in time order. One window more than `windows` is kept, because the oldest
    window may lie only partly within the period for which statistics are computed.
    """

    sampling: SampleWindows
    total: float = 0.0
    _windows: list[_SampleWindow] = field(default_factory=list)

    def observe(self, value: float, now_s: float) -> None:
        """Add one value to the current window, or to a new window if the current one has ended."""
        self.observe_many(1, value, minimum=value, maximum=value, now_s=now_s)

    def observe_many(
        self, count: int, total: float, *, minimum: float, maximum: float, now_s: float
    ) -> None:
        """Observe `count` values whose sum is `total`, in one call."""
        assert count > 0, count
        windows = self._windows
        if not windows or now_s - windows[-1].begun_s >= self.sampling.window_s:
            windows.append(_SampleWindow(now_s, now_s))
            del windows[: -self.sampling.windows - 1]
        window = windows[-1]
        window.count += count
        window.sum += total
        window.last_s = now_s
        if maximum > window.max:
            window.max = maximum
        if minimum < window.min:
            window.min = minimum
        self.total += total

    def compute_statistics(self, now_s: float) -> WindowedValues:
        """Compute the statistics of the last `windows` x `window_s` seconds."""
        count, added, most, least, begun_s = 0, 0.0, -math.inf, math.inf, now_s
        for each in self._windows:
            if now_s - each.last_s < self.sampling.span_s:
                count += each.count
                added += each.sum
                most = max(most, each.max)
                least = min(least, each.min)
                begun_s = min(begun_s, each.begun_s)
        if count == 0:
            return WindowedValues(self.total, math.nan, math.nan, 0.0, 0.0, math.nan)
        elapsed_s = self._compute_period_s(now_s - begun_s)
        rate, count_rate = added / elapsed_s, count / elapsed_s
        return WindowedValues(self.total, added / count, most, rate, count_rate, least)

    def _compute_period_s(self, since_first_s: float) -> float:
        """Compute the period by which rates are divided, at least 1 ms.

        As in Java, all windows except the newest count with their full length, so that the rate
        does not fluctuate strongly just after the first observation.
        """
        window_s = self.sampling.window_s
        missing = max(0, self.sampling.windows - 1 - int(since_first_s / window_s))
        return max(since_first_s + missing * window_s, 0.001)

    def check_invariants(self) -> None:
        assert len(self._windows) <= self.sampling.windows + 1, self._windows
        begins = [each.begun_s for each in self._windows]
        assert begins == sorted(begins), begins
        assert all(each.count > 0 for each in self._windows), self._windows
