"""Groups of a flow and where they go on on its target, as JSON: what its checkpoints say.

Made of what the tasks that write them know, in this process: no cluster is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect_runtime.base import ids
from mm2.app import flow_plan
from mm2.app.reports import flow_report
from mm2.app.ui import flow_documents
from mm2.connectors import board
from mm2.formats import checkpoint

GROUPS_MAX = 50
PARTITIONS_MAX = 50
"""Of one group."""


def groups_json(
    seen: flow_documents.Seen,
    one: flow_documents.FlowSeen,
    told: Sequence[board.GroupsShown],
    *,
    text: str,
) -> dict[str, Any]:
    """Of the groups whose name has `text` in it the first, by name."""
    found = [each.find(text, GROUPS_MAX) for each in told]
    groups = {name: points for each in found for name, points in each.groups.items()}
    mirrors = {
        ids.TopicPartition(each.mirror, each.partition): each for each in one.report.partitions
    }
    rounds = [each.round_ms for each in told]
    known = [each for each in rounds if each is not None]
    how = one.status.holds.beside.get(flow_plan.CHECKPOINT)
    return {
        **flow_documents.head(seen),
        "flow": one.flow.name,
        "tasks_here": len(told),
        "held": None if how is None else how.value,
        "round_ms": min(known) if known and len(known) == len(rounds) else None,
        "group_count": sum(each.known for each in found),
        "groups_found": sum(each.matching for each in found),
        "groups": [_group(name, groups[name], mirrors) for name in sorted(groups)[:GROUPS_MAX]],
    }


def _group(
    name: str,
    points: Sequence[checkpoint.Checkpoint],
    mirrors: Mapping[ids.TopicPartition, flow_report.Partition],
) -> dict[str, Any]:
    shown = sorted(points, key=lambda each: each.partition)
    unread = [_unread(each, mirrors.get(each.partition)) for each in shown]
    counted = [each for each in unread if each is not None]
    return {
        "group": name,
        "partition_count": len(shown),
        "unread_records": sum(counted) if counted else None,
        "unread_known": len(counted) == len(shown),
        "partitions": [
            _partition(each, mirrors.get(each.partition), left)
            for each, left in zip(shown[:PARTITIONS_MAX], unread, strict=False)
        ],
    }


def _partition(
    each: checkpoint.Checkpoint, copied: flow_report.Partition | None, unread: int | None
) -> dict[str, Any]:
    return {
        "topic": None if copied is None else copied.topic,
        "mirror": each.partition.topic,
        "partition": each.partition.partition,
        "source_offset": each.upstream,
        "mirror_offset": each.downstream,
        "unread_records": unread,
    }


def _unread(each: checkpoint.Checkpoint, copied: flow_report.Partition | None) -> int | None:
    """By offsets of the source: an upper bound where its log has gaps."""
    if copied is None or copied.end is None:
        return None
    return max(0, copied.end - each.upstream)
