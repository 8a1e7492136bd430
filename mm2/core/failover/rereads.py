"""How many records groups will read again after a move, in words: the same text for the plan, the
report, the drill and the status page.

Made of groups as the plan's JSON has them, which the journal keeps.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from connect_runtime.base import amounts
from mm2.core.failover import seen
from mm2.core.offsets import group_sync

_S, _MIN, _H, _D = 1_000, 60_000, 3_600_000, 86_400_000
_WHOLE_SECONDS_MS = 10 * _MIN


def at_most(groups: Collection[Mapping[str, Any]]) -> int | None:
    """The bound of all groups that move; None where none can be proven of one of them."""
    found = [each["read_again_max"] for each in _moving(groups)]
    return None if None in found else sum(found)


def words(groups: Collection[Mapping[str, Any]], *, at_ms: int, planned: bool) -> str:
    """`at most 0 records`, or what is known where positions are those of checkpoints. `at_ms`: when
    the clusters were looked at. `planned`: the move waits until no group has members."""
    known = _known(groups, at_ms=at_ms)
    active = sum(each["state"] == group_sync.GroupState.ACTIVE.value for each in _moving(groups))
    if planned or not active:
        return known
    still = f"{amounts.counted(active, 'group')} still {amounts.agreeing(active, 'consume')}"
    return f"{known}, and what {still} from now on"


def _known(groups: Collection[Mapping[str, Any]], *, at_ms: int) -> str:
    bound = at_most(groups)
    written = [
        each["checkpointed_ms"]
        for each in _moving(groups)
        if each["origin"] != seen.Origin.COMMITTED.value
    ]
    if not written:
        return "unknown (at least 0 records)" if bound is None else f"at most {_records(bound)}"
    stale = f"{amounts.counted(len(written), 'group')} by {_checkpoint(written, at_ms)}"
    if bound is None:
        return f"unknown (at least 0 records; {stale})"
    return f"unknown, at most {_records(bound)} ({stale})"


def basis(origin: seen.Origin, written_ms: int | None, *, at_ms: int) -> str:
    """What a position is from: `committed`, or `checkpoint, 149 s old`."""
    if origin is not seen.Origin.CHECKPOINTED or written_ms is None or written_ms < 0:
        return origin.value
    return f"{origin.value}, {age(at_ms - written_ms)} old"


def age(ms: int) -> str:
    """`149 s`, `25 min`, `3.4 h`, `2.1 d`."""
    ms = max(0, ms)
    if ms < _WHOLE_SECONDS_MS:
        return f"{ms // _S} s"
    if ms < 2 * _H:
        return f"{ms // _MIN} min"
    return f"{ms / _H:.1f} h" if ms < 2 * _D else f"{ms / _D:.1f} d"


def _moving(groups: Collection[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Groups that stay as they are read nothing again because of the move."""
    return [each for each in groups if each["barred"] is None]


def _records(number: int) -> str:
    return amounts.counted(number, "record")


def _checkpoint(written: list[int | None], at_ms: int) -> str:
    known = [each for each in written if each is not None and each >= 0]
    one = len(written) == 1
    if not known:
        return "its last known offsets" if one else "their last known offsets"
    oldest = age(at_ms - min(known))
    return f"its last checkpoint, {oldest} old" if one else f"checkpoints up to {oldest} old"
