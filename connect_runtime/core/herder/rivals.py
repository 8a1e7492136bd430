"""Whether another Connect cluster lives on the same internal topics.

Two groups on one config topic run every connector twice, and undo each other's statuses. Nothing in
the topics says whose they are; but groups say what their members run, and statuses who runs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib import parse

from connect_runtime.core.assignment import protocol, work
from connect_runtime.core.state import cluster_config, status_log, status_records

PROTOCOL_TYPE = "connect"
_Assigned: TypeAlias = Mapping[work.Item, tuple[str, int]]
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
    """`evidence` is half a sentence: what shows that the group uses the same topics.

    Not `certain` is what another cluster with topics of its own, made in the same way, shows too.
    """

    group_id: str
    evidence: str
    certain: bool = True

    def __str__(self) -> str:
        lives = "lives" if self.certain else "may live"
        return (
            f"another Connect cluster {lives} on the same internal topics: in group "
            f"{self.group_id} {self.evidence}; give each cluster its own config.storage.topic, "
            "offset.storage.topic and status.storage.topic, or its workers the same group.id"
        )


def find(
    groups: Iterable[GroupSeen], topics: Topics, *, own_group: str, own_address: str
) -> Rival | None:
    """The first group, by name, that runs what these topics say; a certain one before others.

    `own_address`: host:port of the worker that asks. A group with a worker of that address lives
    where addresses are given anew, as containers do, and is judged by nothing that names them.
    """
    own: _Assigned = {}
    others: dict[str, _Assigned] = {}
    for group in sorted(groups, key=lambda each: each.group_id):
        if group.group_id == own_group:
            own = _assigned(group)
        elif group.protocol_type == PROTOCOL_TYPE:
            others[group.group_id] = _assigned(group)
    for group_id, assigned in others.items():
        if own_address not in {worker_id for worker_id, _ in assigned.values()}:
            evidence = _by_statuses(assigned, topics, own=own)
            if evidence is not None:
                return Rival(group_id=group_id, evidence=evidence)
    for group_id, assigned in others.items():
        evidence = _by_offset(assigned, topics)
        if evidence is not None:
            return Rival(group_id=group_id, evidence=evidence, certain=False)
    return None


def address(worker_id: str) -> str:
    """The host:port in what a worker is called in statuses: in dedicated mode its flow follows."""
    return worker_id.partition("/")[0]


def _by_statuses(assigned: _Assigned, topics: Topics, *, own: _Assigned) -> str | None:
    for item, (worker_id, offset) in assigned.items():
        status = topics.statuses.get(item)
        if (
            status is not None
            and address(status.worker_id) == worker_id
            and status.state not in _GONE
            and offset <= topics.config.offset
            and own.get(item, ("", 0))[0] != worker_id
        ):
            return f"worker {worker_id} runs {item}, as the status topic says too"
    return None


def _by_offset(assigned: _Assigned, topics: Topics) -> str | None:
    """Everything that is configured here, by members that have read exactly as far."""
    everything = {
        item for name in topics.config.connectors() for item in (name, *topics.config.tasks(name))
    }
    if not everything or everything != set(assigned):
        return None
    if any(offset != topics.config.offset for _, offset in assigned.values()):
        return None
    return (
        f"all {len(everything)} connectors and tasks of this config topic run, as of the same "
        f"offset {topics.config.offset}"
    )


def _assigned(group: GroupSeen) -> _Assigned:
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
