"""A dashboard as data, before it is rendered as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grafana.generator import panels


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A titled row of panels, laid out from left to right and wrapped to the width."""

    title: str
    panels: Sequence[panels.Builder]


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    uid: str
    title: str
    about: str
    rows: Sequence[Row]
    topics: bool = False
    """Adds the variable Topic, which filters by topic."""
