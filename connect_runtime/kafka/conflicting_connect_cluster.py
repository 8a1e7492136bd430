"""Detects another Connect cluster (group) that uses the same internal topics.

Two groups that share a config topic both run every connector, and overwrite each other's statuses.
The topics do not contain the group id. Therefore, the connectors and tasks that a group's members
report are compared with the worker ids in the status topic.
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
    """A group as described by its coordinator, with the (metadata, assignment) bytes of each
    member."""

    group_id: str
    protocol_type: str
    members: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopicsContent:
    """Snapshot of the config and status topics."""

    config: ClusterConfigState
    statuses: StatusSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictingCluster:
    """Another group that seems to use the same internal topics."""

    group_id: str
    evidence: str
    """Evidence of the conflict, as a clause that follows the group id in the error message."""
    is_certain: bool = True
    """False if the evidence is not a proof: a cluster with the same configuration, but with its
    own internal topics, would look the same."""

    def __str__(self) -> str:
        uses = "uses" if self.is_certain else "may use"
        return (
            f"another Connect cluster {uses} the same internal topics: in group {self.group_id} "
            f"{self.evidence}; give each cluster its own config.storage.topic, "
            "offset.storage.topic and status.storage.topic, or set the same group.id if the "
            "workers form one cluster"
        )


def find_conflicting_cluster(
    groups: Iterable[DescribedGroup],
    topics: InternalTopicsContent,
    *,
    own_group: str,
    own_address: str,
) -> ConflictingCluster | None:
    """Return another group that seems to use the same internal topics as the calling worker; None
    if no group does.

    A group with certain evidence is preferred to one with uncertain evidence. Otherwise the first
    group in the order of group ids is returned. `own_address` is the host:port of the calling
    worker. If a group has another worker with this address, it probably runs on a container network
    that reuses addresses. Its worker addresses are then not used as evidence.
    """
    own: _AssignedItems = {}
    others: dict[str, _AssignedItems] = {}
    for group in sorted(groups, key=lambda each: each.group_id):
        if group.group_id == own_group:
            own = _decode_assigned_connectors_and_tasks(group)
        elif group.protocol_type == CONNECT_PROTOCOL_TYPE:
            others[group.group_id] = _decode_assigned_connectors_and_tasks(group)
    for group_id, assigned in others.items():
        if own_address not in {worker_id for worker_id, _ in assigned.values()}:
            evidence = _find_conflict_in_statuses(assigned, topics, own=own)
            if evidence is not None:
                return ConflictingCluster(group_id=group_id, evidence=evidence)
    for group_id, assigned in others.items():
        evidence = _find_conflict_in_config_offsets(assigned, topics)
        if evidence is not None:
            return ConflictingCluster(group_id=group_id, evidence=evidence, is_certain=False)
    return None


def parse_worker_address(worker_id: str) -> str:
    """Return the host:port part of a worker id. In MirrorMaker's dedicated mode, the flow follows
    after a slash, as in `host:8083/A->B`."""
    return worker_id.partition("/")[0]


def _find_conflict_in_statuses(
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
            return f"worker {worker_id} runs {item}, which the status topic confirms"
    return None


def _find_conflict_in_config_offsets(
    assigned: _AssignedItems, topics: InternalTopicsContent
) -> str | None:
    """Return evidence of a conflict if the group runs exactly the connectors and tasks of the
    config topic, at the same config offset; otherwise None."""
    everything = {
        item for name in topics.config.connectors() for item in (name, *topics.config.tasks(name))
    }
    if not everything or everything != set(assigned):
        return None
    if any(offset != topics.config.offset for _, offset in assigned.values()):
        return None
    return (
        f"all {len(everything)} connectors and tasks of this config topic are running with the "
        f"same config offset {topics.config.offset}"
    )


def _decode_assigned_connectors_and_tasks(group: DescribedGroup) -> _AssignedItems:
    """Return the worker address and config offset of every assigned connector and task."""
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
