"""What a source offset is on the target, or the other way round: outcomes, not sentinels.

`downstream` is where to go on on the other cluster: of what is translated back a source offset.
Whoever knows answers: the table of offset syncs, or the complete offset map.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.base import ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """Who goes on at `downstream` reads nothing again and misses nothing."""

    downstream: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """Who goes on at `downstream` misses nothing, and reads up to `again_max` records again."""

    downstream: int
    again_max: int


class Untranslated(enum.Enum):
    """Why there is no offset on the target."""

    NOT_READY = "not ready"
    """What is known was not read yet, or the offset was not copied yet: ask again later."""
    UNKNOWN = "unknown"
    """Nothing of this partition was copied."""
    TOO_OLD = "too old"
    """It lies before everything that can be told apart."""


Translation: TypeAlias = Exact | Earlier | Untranslated
Translate: TypeAlias = Callable[[ids.TopicPartition, int], Translation]
"""A partition of the source, by its name there, and the offset that a group goes on from."""


def farther(one: Translation, other: Translation) -> Translation:
    """Of two that are both true the one by which less is read again; `one` where they say the
    same, and where it is exact: what goes beyond that is of topics that are no more."""
    if isinstance(other, Untranslated) or isinstance(one, Exact):
        return one
    if isinstance(one, Untranslated) or other.downstream > one.downstream:
        return other
    exact = isinstance(other, Exact) and other.downstream == one.downstream
    return other if exact else one
