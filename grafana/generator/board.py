"""What a dashboard is, before it becomes JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grafana.generator import panels


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Its panels stand side by side, as far as they fit."""

    title: str
    panels: Sequence[panels.Builder]


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """`topics`: it can be narrowed to topics, too."""

    uid: str
    title: str
    about: str
    rows: Sequence[Row]
    topics: bool = False
