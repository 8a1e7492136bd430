"""Detects another Connect cluster (group) that uses the same internal topics.

Two groups on one config topic run every connector twice and overwrite each other's statuses. The
topics do not contain the group id, but groups report what their members run, and statuses report
which worker runs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib import parse

from connect_runtime.group import connect_protocol
from connect_runtime.group.connect_protocol import MalformedBytesError
from connect_runtime.group.connectors_and_tasks import WorkItem
from connect_runtime.storage.cluster_config_state import ClusterConfigState
from connect_runtime.storage.status_records import RunState
from connect_runtime.storage.status_topic import StatusSnapshot

CONNECT_PROTOCOL_TYPE = "connect"
_AssignedItems: TypeAlias = Mapping[WorkItem, tuple[str, int]]
_NOT_RUNNING_STATES = (RunState.UNASSIGNED, RunState.DESTROYED)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A group as described by its coordinator: (metadata, assignment) bytes of each member."""

    group_id: str
    protocol_type: str
    members: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopicsContent:
    """State read from the internal topics."""

    config: ClusterConfigState
    statuses: StatusSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictingCluster:
    """Another group that seems to use the same internal topics."""

    group_id: str
    evidence: str
    """Clause of a sentence that follows the group id."""
    certain: bool = True
    """False if a cluster with its own topics, configured in the same way, would look the same."""

    def __str__(self) -> str:
        uses = "uses" if self.certain else "may use"
        return (
            f"another Connect cluster {uses} the same internal topics: in group "
            f"{self.group_id} {self.evidence}; give each cluster its own config.storage.topic, "
            "offset.storage.topic and status.storage.topic, or its workers the same group.id"
        )


def find_conflicting_cluster(
    groups: Iterable[DescribedGroup],
    topics: InternalTopicsContent,
    *,
    own_group: str,
    own_address: str,
) -> ConflictingCluster | None:
    """Return the first conflicting group by name, preferring certain conflicts.

    `own_address`: host:port of the calling worker. A group that has a worker with this address
    probably runs on a container network with reused addresses, so addresses prove nothing there.
    """
    own: _AssignedItems = {}
    others: dict[str, _AssignedItems] = {}
    for group in sorted(groups, key=lambda each: each.group_id):
        if group.group_id == own_group:
            own = _read_assignments(group)
        elif group.protocol_type == CONNECT_PROTOCOL_TYPE:
            others[group.group_id] = _read_assignments(group)
    for group_id, assigned in others.items():
        if own_address not in {worker_id for worker_id, _ in assigned.values()}:
            evidence = _find_status_evidence(assigned, topics, own=own)
            if evidence is not None:
                return ConflictingCluster(group_id=group_id, evidence=evidence)
    for group_id, assigned in others.items():
        evidence = _find_offset_evidence(assigned, topics)
        if evidence is not None:
            return ConflictingCluster(group_id=group_id, evidence=evidence, certain=False)
    return None


def parse_worker_address(worker_id: str) -> str:
    """Return host:port of a worker id from a status; in dedicated mode `/flow` follows it."""
    return worker_id.partition("/")[0]


def _find_status_evidence(
    assigned: _AssignedItems, topics: InternalTopicsContent, *, own: _AssignedItems
) -> str | None:
    for item, (worker_id, offset) in assigned.items():
        status = topics.statuses.get(item)
        if (
            status is not None
            and parse_worker_address(status.worker_id) == worker_id
            and status.state not in _NOT_RUNNING_STATES
            and offset <= topics.config.offset
            and own.get(item, ("", 0))[0] != worker_id
        ):
            return f"worker {worker_id} runs {item}, as the status topic says too"
    return None


def _find_offset_evidence(assigned: _AssignedItems, topics: InternalTopicsContent) -> str | None:
    """Compare the group's assignments and config offset with the whole config topic."""
    everything = {
        item for name in topics.config.connectors() for item in (name, *topics.config.tasks(name))
    }
    if not everything or everything != set(assigned):
        return None
    if any(offset != topics.config.offset for _, offset in assigned.values()):
        return None
    return (
        f"all {len(everything)} connectors and tasks of this config topic run, with the same "
        f"config offset {topics.config.offset}"
    )


def _read_assignments(group: DescribedGroup) -> _AssignedItems:
    """Return (worker, config offset of its assignment) by connector or task."""
    found: dict[WorkItem, tuple[str, int]] = {}
    for metadata, assignment in group.members:
        try:
            state = connect_protocol.decode_metadata(metadata)
            given = connect_protocol.decode_assignment(assignment)
        except MalformedBytesError:
            continue  # another kind of client that joined as a Connect worker
        worker_id = parse.urlsplit(state.url).netloc
        found |= dict.fromkeys(given.assigned.items, (worker_id, given.config_offset))
    return found
