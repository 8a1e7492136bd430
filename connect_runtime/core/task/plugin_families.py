"""The metrics that plugins add to the worker's, in one list: the worker's first, then theirs.

What two say of one series cannot both be shown, so the first is; what does not fit its own
declaration, or another's of the same name, is left out and named.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from connect_runtime.base import metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """`families` in order of names; `refused` says of which metrics something is missing."""

    families: tuple[metrics.Family, ...]
    refused: frozenset[str]


def together(own: Iterable[metrics.Family], added: Iterable[metrics.Family]) -> Together:
    """`own` is right by itself; of `added` each may be anything."""
    shown = {each.metric.name: each for each in own}
    declared_here = frozenset(shown)
    refused: set[str] = set()
    for family in added:
        name = family.metric.name
        known = shown.get(name)
        other = known is not None and (known.metric != family.metric or name in declared_here)
        if other or not _fits(family):
            refused.add(name)
            continue
        before = {} if known is None else known.series
        if before.keys() & family.series.keys():
            refused.add(name)
        shown[name] = metrics.Family(metric=family.metric, series={**family.series, **before})
    return Together(
        families=tuple(family for _, family in sorted(shown.items())), refused=frozenset(refused)
    )


def _fits(family: metrics.Family) -> bool:
    """Every series has a text for each label, and a number."""
    labels = len(family.metric.labels)
    return all(
        len(values) == labels
        and all(isinstance(each, str) for each in values)
        and isinstance(number, (int, float))
        for values, number in family.series.items()
    )
