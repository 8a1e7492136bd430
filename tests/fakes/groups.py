"""A cluster's consumer groups in memory, and a `groups.Groups` over them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2.kafka.kafka_client_interfaces import (
    GroupInUseError,
    OffsetsToWrite,
    PerGroupResult,
    RefusedOffsets,
    ReportedPositions,
)
from mm2.offsets import group_selection
from mm2.offsets.checkpoint_rules import CommittedPositions, OffsetAndMetadata
from mm2.offsets.group_offset_sync import GroupState
from mm2.offsets.group_selection import ListedGroup

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class FakeGroup:
    state: GroupState = GroupState.EMPTY
    type: str = "classic"
    protocol: str = "consumer"
    hosts: tuple[str, ...] = ()
    assignor: str = ""
    unstable: bool = False
    positions: dict[TopicPartition, OffsetAndMetadata | None] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class FakeGroupCluster:
    """What clients of one cluster share.

    `failure`: what every question answers. `failures[operation, group]`: what this operation
    answers of the group, with the method's name as operation. `partitions`: where groups can have
    offsets, None: everywhere. `on_write` is called before a write is looked at.
    """

    groups: dict[str, FakeGroup] = field(default_factory=dict)
    failure: ConnectError | None = None
    failures: dict[tuple[str, str], ConnectError] = field(default_factory=dict)
    partitions: frozenset[TopicPartition] | None = None
    on_write: Callable[[], None] = lambda: None
    writes: list[Mapping[str, OffsetsToWrite]] = field(default_factory=list)

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, int | None], *, metadata: str = ""
    ) -> FakeGroup:
        """As a client does; None: it says that it goes on nowhere."""
        found = self.groups.setdefault(group, FakeGroup())
        for place, offset in offsets.items():
            found.positions[place] = (
                None if offset is None else OffsetAndMetadata(offset=offset, metadata=metadata)
            )
        return found

    def offsets(self, group: str) -> dict[TopicPartition, int | None]:
        positions = self.groups[group].positions
        return {place: None if each is None else each.offset for place, each in positions.items()}


class FakeGroups:
    """Implements `groups.Groups`; nothing takes time."""

    def __init__(self, cluster: FakeGroupCluster) -> None:
        self._cluster = cluster
        self.closed = False
        self.calls: list[str] = []

    def list_groups(self, timeout_s: float) -> list[ListedGroup]:
        self._answer("list_groups")
        return [
            ListedGroup(group=name, type=each.type, protocol=each.protocol)
            for name, each in self._cluster.groups.items()
        ]

    def describe_group_states(
        self, groups: Collection[str], timeout_s: float
    ) -> PerGroupResult[GroupState]:
        def state(group: str) -> GroupState:
            found = self._cluster.groups.get(group)
            if found is None:
                return GroupState.ABSENT
            foreign = found.protocol not in group_selection.CONSUMER_PROTOCOLS
            return GroupState.FOREIGN if foreign else found.state

        return self._each("states", groups, state)

    def list_member_hosts(
        self, groups: Collection[str], timeout_s: float
    ) -> PerGroupResult[tuple[str, ...]]:
        def hosts(group: str) -> tuple[str, ...]:
            found = self._cluster.groups.get(group)
            return () if found is None else found.hosts

        return self._each("members", groups, hosts)

    def list_assignors(self, groups: Collection[str], timeout_s: float) -> PerGroupResult[str]:
        def assignor(group: str) -> str:
            found = self._cluster.groups.get(group)
            return "" if found is None else found.assignor

        return self._each("assignors", groups, assignor)

    def fetch_committed_offsets(
        self, groups: Collection[str], timeout_s: float, *, stable: bool = False
    ) -> PerGroupResult[CommittedPositions]:
        def positions(group: str) -> CommittedPositions:
            found = self._cluster.groups.get(group)
            if stable and found is not None and found.unstable:
                raise RetriableError(f"group {group}: a transaction is open")
            return {} if found is None else dict(found.positions)

        return self._each("positions", groups, positions)

    def list_share_partitions(
        self, groups: Collection[str], timeout_s: float
    ) -> PerGroupResult[frozenset[TopicPartition]]:
        def places(group: str) -> frozenset[TopicPartition]:
            found = self._cluster.groups.get(group)
            return frozenset() if found is None else frozenset(found.positions)

        return self._each("share_partitions", groups, places)

    def fetch_changed_committed_offsets(
        self, groups: Collection[str], timeout_s: float, *, seen: ReportedPositions
    ) -> PerGroupResult[CommittedPositions]:
        found = self.fetch_committed_offsets(groups, timeout_s)
        done: dict[str, CommittedPositions] = {}
        for group, positions in found.succeeded.items():
            data = repr(sorted(positions.items())).encode()
            if seen.get(group) != data:
                done[group] = positions
                seen[group] = data
        return PerGroupResult(succeeded=done, failed=found.failed)

    def commit_offsets(
        self, offsets: Mapping[str, OffsetsToWrite], timeout_s: float
    ) -> PerGroupResult[RefusedOffsets]:
        self._cluster.on_write()

        def write(group: str) -> RefusedOffsets:
            found = self._cluster.groups.get(group)
            if found is not None and found.state is GroupState.ACTIVE:
                raise GroupInUseError(f"changing offsets of group {group}")
            refused: dict[TopicPartition, ConnectError] = {}
            known = self._cluster.partitions
            for place, each in offsets[group].items():
                if known is None or place in known:
                    self._cluster.groups.setdefault(group, FakeGroup()).positions[place] = each
                else:
                    refused[place] = TopicMissingError(f"{place}: there is none")
            if refused and len(refused) == len(offsets[group]):
                raise next(iter(refused.values()))
            return refused

        found = self._each("write", offsets, write)
        self._cluster.writes.append(dict(offsets))
        return found

    def close(self) -> None:
        self.closed = True

    def _answer(self, operation: str) -> None:
        assert not self.closed
        self.calls.append(operation)
        if self._cluster.failure is not None:
            raise self._cluster.failure

    def _each(
        self, operation: str, groups: Iterable[str], ask: Callable[[str], T]
    ) -> PerGroupResult[T]:
        self._answer(operation)
        done: dict[str, T] = {}
        failed: dict[str, ConnectError] = {}
        for group in groups:
            try:
                if (operation, group) in self._cluster.failures:
                    raise self._cluster.failures[operation, group]
                done[group] = ask(group)
            except ConnectError as error:
                failed[group] = error
        return PerGroupResult(succeeded=done, failed=failed)
