"""Estimates how many records groups re-read after a failover, and formats the estimate for display.

The plan, the final report, the drill and the status page display the estimate in the same format.
The input is the plan's JSON form of the groups, which the journal also stores.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from connect_runtime.base import plurals
from mm2.clusters.cluster_pair_snapshot import PositionBasis
from mm2.offsets.group_offset_sync import GroupState

_SECOND_MS, _MINUTE_MS, _HOUR_MS, _DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000
_WHOLE_SECONDS_MS = 10 * _MINUTE_MS
_UNKNOWN_COUNT = "unknown"


def are_all_groups_known(
    groups: Collection[Mapping[str, Any]],
    findings: Collection[Mapping[str, Any]],
    *,
    origin_error: str,
) -> bool:
    """Return True if a plan contains all groups and their positions: the origin responded, listed
    all groups, and let mm2 read every group that has no checkpoints."""
    unlisted = any(each["code"] == "groups-unlisted" for each in findings)
    unread = any(each["read_error"] and not each["partitions"] for each in groups)
    return not (origin_error or unlisted or unread)


def compute_reread_bound(groups: Collection[Mapping[str, Any]], *, all_known: bool) -> int | None:
    """Return the upper bound of the records that all groups of the failover re-read. Groups that
    are not moved are ignored. Returns None if a group has no bound, or if no group is moved and
    some groups are unknown."""
    if not all_known and not _select_moved_groups(groups):
        return None
    return _sum_reread_bounds(groups, "reread_max")


def describe_rereads(
    groups: Collection[Mapping[str, Any]], *, at_ms: int, planned: bool, all_known: bool
) -> str:
    """Describe the number of re-read records: `at most 0 records`, or an estimate with its reason
    if positions are from checkpoints.

    `at_ms` is the time of the snapshot. `planned` is True if the failover waits until no group has
    members. `all_known` is the result of `are_all_groups_known`.
    """
    if not all_known and not _select_moved_groups(groups):
        return _UNKNOWN_COUNT
    known = _describe_known_groups(groups, at_ms=at_ms)
    active = sum(each["state"] == GroupState.ACTIVE.value for each in _select_moved_groups(groups))
    if planned or not active:
        return known
    still = (
        f"{plurals.format_count(active, 'group')} still {plurals.conjugate_verb(active, 'consume')}"
    )
    return f"{known}, plus what {still} from now on"


def _describe_known_groups(groups: Collection[Mapping[str, Any]], *, at_ms: int) -> str:
    bound = _sum_reread_bounds(groups, "reread_max")
    stale = [
        each
        for each in _select_moved_groups(groups)
        if each["basis"] != PositionBasis.COMMITTED.value
    ]
    if not stale:
        return _UNKNOWN_COUNT if bound is None else f"at most {_format_record_count(bound)}"
    why = _describe_stale_positions(stale, at_ms)
    if bound is not None:
        return f"unknown, at most {_format_record_count(bound)} ({why})"
    known = _sum_reread_bounds(groups, "reread_known_max")
    if known is None:
        return f"unknown ({why})"
    subject = "it" if len(stale) == 1 else "they"
    return (
        f"unknown, at most {_format_record_count(known)} ({why}), plus all records of any topic "
        f"that {subject} may have started to read since then"
    )


def _describe_stale_positions(groups: Collection[Mapping[str, Any]], at_ms: int) -> str:
    """Describe the age of positions that are not committed offsets."""
    written = [each["checkpointed_ms"] for each in groups if each["partitions"]]
    nowhere = len(groups) - len(written)
    found = []
    if written:
        found.append(
            f"{plurals.format_count(len(written), 'group')} at "
            f"{_describe_checkpoint_age(written, at_ms)}"
        )
    if nowhere:
        found.append(f"{plurals.format_count(nowhere, 'group')} without a checkpoint")
    return ", ".join(found)


def describe_position_basis(origin: PositionBasis, written_ms: int | None, *, at_ms: int) -> str:
    """Describe the source of a position: `committed`, or `checkpoint, 149 s old`."""
    if origin is not PositionBasis.CHECKPOINTED or written_ms is None or written_ms < 0:
        return origin.value
    return f"{origin.value}, {format_age(at_ms - written_ms)} old"


def format_age(ms: int) -> str:
    """Format an age as text, for example `149 s`, `25 min`, `3.4 h` or `2.1 d`."""
    ms = max(0, ms)
    if ms < _WHOLE_SECONDS_MS:
        return f"{ms // _SECOND_MS} s"
    if ms < 2 * _HOUR_MS:
        return f"{ms // _MINUTE_MS} min"
    return f"{ms / _HOUR_MS:.1f} h" if ms < 2 * _DAY_MS else f"{ms / _DAY_MS:.1f} d"


def _select_moved_groups(groups: Collection[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Select the groups that are moved. Other groups do not re-read records because of the
    failover."""
    return [each for each in groups if each["blocking_state"] is None]


def _sum_reread_bounds(groups: Collection[Mapping[str, Any]], bound: str) -> int | None:
    found = [each[bound] for each in _select_moved_groups(groups)]
    return None if None in found else sum(found)


def _format_record_count(number: int) -> str:
    return plurals.format_count(number, "record")


def _describe_checkpoint_age(written: list[int | None], at_ms: int) -> str:
    known = [each for each in written if each is not None and each >= 0]
    one = len(written) == 1
    if not known:
        return "its last known offsets" if one else "their last known offsets"
    oldest = format_age(at_ms - min(known))
    return f"its last checkpoint, {oldest} old" if one else f"checkpoints up to {oldest} old"
