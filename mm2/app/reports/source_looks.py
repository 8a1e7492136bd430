"""What the source was asked of partitions that are not copied as they come, and what follows for
what is not copied yet: how much, how old, how long it is still there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from connect_runtime.base import ids
from mm2.app.reports import flow_report
from mm2.cluster import admin
from mm2.core import time_to_loss
from mm2.core.offsets import log_ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One partition of the source. `copied_to` is the next offset to copy, `waiting_since_ms` as in
    `flow_report.Partition`."""

    ends: log_ends.Ends
    copied_to: int
    waiting_since_ms: int | None
    outlook: time_to_loss.Outlook


Looks = Mapping[ids.TopicPartition, Seen]


def with_look(found: flow_report.Partition, seen: Seen, *, recent: bool) -> flow_report.Partition:
    """What was asked is as new as anything; while it moves, its copy knows more of its end. Of a
    look that is not `recent` only the outlook counts: what its source holds now is unknown."""
    if not recent:
        return dataclasses.replace(found, outlook=seen.outlook)
    copied_to = seen.copied_to if found.copied_to is None else found.copied_to
    moved_past = found.end is not None and found.end > seen.ends.end
    waiting = seen.waiting_since_ms if found.waiting_since_ms is None else found.waiting_since_ms
    caught_up = copied_to >= seen.ends.end
    return dataclasses.replace(
        found,
        copied_to=copied_to,
        start=seen.ends.start,
        end=found.end if moved_past else seen.ends.end,
        waiting_since_ms=None if caught_up and not moved_past else waiting,
        outlook=seen.outlook,
    )


def retention(settings: admin.Configs | None) -> time_to_loss.Retention | None:
    """By a topic's settings; None: they do not tell, or may not be read."""
    if settings is None:
        return None
    return time_to_loss.Retention.of({name: each.value for name, each in settings.items()})
