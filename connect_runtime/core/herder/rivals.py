"""Whether another Connect cluster lives on the same internal topics.

Two groups on one config topic run every connector twice, and undo each other's statuses. Nothing in
the topics says whose they are; but groups say what their members run, and statuses who runs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib import parse

from connect_runtime.core.assignment import protocol, work
from connect_runtime.core.state import cluster_config, status_log, status_records

PROTOCOL_TYPE = "connect"
_GONE = (status_records.State.UNASSIGNED, status_records.State.DESTROYED)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSeen:
    """A group as its coordinator describes it: each member's metadata and assignment, as bytes."""

    group_id: str
    protocol_type: str
    members: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """What the internal topics say."""

    config: cluster_config.ClusterConfig
    statuses: status_log.Statuses


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """`evidence` is half a sentence: what shows that the group uses the same topics."""

    group_id: str
    evidence: str

    def __str__(self) -> str:
        return (
            f"another Connect cluster lives on the same internal topics: in group {self.group_id} "
            f"{self.evidence}; give each cluster its own config.storage.topic, "
            "offset.storage.topic and status.storage.topic, or its workers the same group.id"
        )


def find(groups: Iterable[GroupSeen], topics: Topics, *, own_group: str) -> Rival | None:
    """The first group, by name, that runs what these topics say."""
    for group in sorted(groups, key=lambda each: each.group_id):
        if group.group_id == own_group or group.protocol_type != PROTOCOL_TYPE:
            continue
        evidence = _by_statuses(group, topics) or _by_offset(group, topics)
        if evidence is not None:
            return Rival(group_id=group.group_id, evidence=evidence)
    return None


def _by_statuses(group: GroupSeen, topics: Topics) -> str | None:
    for item, (worker_id, _) in _assigned(group).items():
        status = topics.statuses.get(item)
        if status is not None and status.worker_id == worker_id and status.state not in _GONE:
            return f"worker {worker_id} runs {item}, as the status topic says too"
    return None


def _by_offset(group: GroupSeen, topics: Topics) -> str | None:
    """Everything that is configured here, by members that have read exactly as far."""
    everything = {
        item for name in topics.config.connectors() for item in (name, *topics.config.tasks(name))
    }
    assigned = _assigned(group)
    if not everything or everything != set(assigned):
        return None
    if any(offset != topics.config.offset for _, offset in assigned.values()):
        return None
    return (
        f"all {len(everything)} connectors and tasks of this config topic run, as of the same "
        f"offset {topics.config.offset}"
    )


def _assigned(group: GroupSeen) -> Mapping[work.Item, tuple[str, int]]:
    """By item, the worker that runs it and the config offset that it was given at."""
    found: dict[work.Item, tuple[str, int]] = {}
    for metadata, assignment in group.members:
        try:
            state = protocol.decode_metadata(metadata)
            given = protocol.decode_assignment(assignment)
        except protocol.MalformedBytesError:
            continue  # of something else that calls itself a Connect worker
        worker_id = parse.urlsplit(state.url).netloc
        found |= dict.fromkeys(given.assigned.items, (worker_id, given.config_offset))
    return found
