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
_UNKNOWN = "unknown (at least 0 records)"


def are_all_known(
    groups: Collection[Mapping[str, Any]], findings: Collection[Mapping[str, Any]], *, silent: str
) -> bool:
    """Of a plan: does it have all groups, and a position of each? Not where the cluster that is
    left is silent, does not list all, or does not let a group without checkpoints be read."""
    unlisted = any(each["code"] == "groups-unlisted" for each in findings)
    unread = any(each["unread"] and not each["partitions"] for each in groups)
    return not (silent or unlisted or unread)


def at_most(groups: Collection[Mapping[str, Any]], *, all_known: bool) -> int | None:
    """The bound of all groups that move; None where none can be proven of one of them, or none
    moves and not all are known."""
    if not all_known and not _moving(groups):
        return None
    return _sum(groups, "read_again_max")


def words(
    groups: Collection[Mapping[str, Any]], *, at_ms: int, planned: bool, all_known: bool
) -> str:
    """`at most 0 records`, or what is known where positions are those of checkpoints. `at_ms`: when
    the clusters were looked at. `planned`: the move waits until no group has members. `all_known`:
    as in `are_all_known`."""
    if not all_known and not _moving(groups):
        return _UNKNOWN
    known = _known(groups, at_ms=at_ms)
    active = sum(each["state"] == group_sync.GroupState.ACTIVE.value for each in _moving(groups))
    if planned or not active:
        return known
    still = f"{amounts.counted(active, 'group')} still {amounts.agreeing(active, 'consume')}"
    return f"{known}, plus what {still} from now on"


def _known(groups: Collection[Mapping[str, Any]], *, at_ms: int) -> str:
    bound = _sum(groups, "read_again_max")
    stale = [each for each in _moving(groups) if each["origin"] != seen.Origin.COMMITTED.value]
    if not stale:
        return _UNKNOWN if bound is None else f"at most {_records(bound)}"
    why = _stale(stale, at_ms)
    if bound is not None:
        return f"unknown, at most {_records(bound)} ({why})"
    known = _sum(groups, "read_again_known_max")
    if known is None:
        return f"unknown (at least 0 records; {why})"
    since = f"any topic {'it' if len(stale) == 1 else 'they'} began to read since"
    return f"unknown, at most {_records(known)} ({why}), and all of {since}"


def _stale(groups: Collection[Mapping[str, Any]], at_ms: int) -> str:
    """What is known of groups whose committed offsets of now are not."""
    written = [each["checkpointed_ms"] for each in groups if each["partitions"]]
    nowhere = len(groups) - len(written)
    found = []
    if written:
        found.append(f"{amounts.counted(len(written), 'group')} at {_checkpoint(written, at_ms)}")
    if nowhere:
        found.append(f"{amounts.counted(nowhere, 'group')} without a checkpoint")
    return ", ".join(found)


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


def _sum(groups: Collection[Mapping[str, Any]], bound: str) -> int | None:
    found = [each[bound] for each in _moving(groups)]
    return None if None in found else sum(found)


def _records(number: int) -> str:
    return amounts.counted(number, "record")


def _checkpoint(written: list[int | None], at_ms: int) -> str:
    known = [each for each in written if each is not None and each >= 0]
    one = len(written) == 1
    if not known:
        return "its last known offsets" if one else "their last known offsets"
    oldest = age(at_ms - min(known))
    return f"its last checkpoint, {oldest} old" if one else f"checkpoints up to {oldest} old"
