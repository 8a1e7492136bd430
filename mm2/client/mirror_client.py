"""`MirrorClient`: finds mirror topics, upstream clusters and checkpointed offsets on one cluster.

Python counterpart of MirrorMaker 2's `MirrorClient`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias, overload

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.ids import TopicPartition
from connect_runtime.system.system_clock import SystemClock
from mm2.client import mirror_client_config
from mm2.client.mirror_client_config import ClientProperties
from mm2.kafka import checkpoint_reader
from mm2.kafka.kafka_client_interfaces import StateTopics
from mm2.offsets.checkpoint_rules import CheckpointTable, NamePredicate, OffsetAndMetadata
from mm2.topics import replication_policy
from mm2.topics.replication_policy import ReplicationPolicy

_REQUEST_TIMEOUT_S = 60.0

GroupOffsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]
"""Translated offsets of a consumer group, by partition on the queried cluster."""


class MirrorClient:
    """Client for a cluster's mirror topics and checkpoints. Use it as a context manager, or call
    `close`.

    Every query raises `RetriableError` or `FatalError` on failure. Not thread-safe.
    """

    def __init__(
        self,
        properties: ClientProperties,
        *,
        timeout_s: float = _REQUEST_TIMEOUT_S,
        topics: StateTopics | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Create a client without sending a request.

        `properties` are client properties with the names that Java uses: `bootstrap.servers`,
        `security.*`, `ssl.*`, `sasl.*`, `replication.policy.*` (see `mirror_client_config`).
        `timeout_s` limits each query that has no timeout argument. `topics` reads the cluster's
        topics; tests pass a fake, other callers omit it. Raises `FatalError` if properties are
        invalid.
        """
        self._clock = clock or SystemClock()
        self._timeout_s = timeout_s
        self._policy = mirror_client_config.build_replication_policy(properties)
        self._topics = topics or mirror_client_config.open_topic_reader(
            properties, clock=self._clock
        )

    def __enter__(self) -> MirrorClient:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all of the client's connections."""
        self._topics.close()

    @property
    def replication_policy(self) -> ReplicationPolicy:
        """Policy that defines the names of mirror topics."""
        return self._policy

    def replication_hops(self, upstream_alias: str) -> int | None:
        """Return the minimum number of hops from the cluster `upstream_alias` to this cluster.

        The number is derived from replicated heartbeats topics. Returns None (Java: -1) if nothing
        is replicated from that cluster.
        """
        found = (
            count_hops(self._policy, topic, upstream_alias) for topic in self.heartbeat_topics()
        )
        return min((each for each in found if each is not None), default=None)

    def heartbeat_topics(self) -> frozenset[str]:
        """Return the cluster's heartbeats topics: its own topic and the replicated ones."""
        return self._list_matching_topics(
            lambda topic: replication_policy.is_heartbeats_topic(self._policy, topic)
        )

    def checkpoint_topics(self) -> frozenset[str]:
        """Return the cluster's checkpoints topics, one per source cluster."""
        return self._list_matching_topics(self._policy.is_checkpoints_topic)

    def upstream_clusters(self) -> frozenset[str]:
        """Return the aliases of all clusters whose heartbeats are replicated to this cluster, over
        any number of hops."""
        found = (list_upstream_aliases(self._policy, topic) for topic in self.heartbeat_topics())
        return frozenset().union(*found)

    def remote_topics(self, source: str | None = None) -> frozenset[str]:
        """Return the cluster's mirror topics. With `source`, return only those replicated directly
        from that cluster.

        With the identity policy, every topic counts as a mirror topic of `source.cluster.alias`.
        """

        def is_selected(topic: str) -> bool:
            if replication_policy.is_internal_topic(self._policy, topic):
                return False
            found = self._policy.topic_source(topic)
            return found is not None and source in (None, found)

        return self._list_matching_topics(is_selected)

    @overload
    def remote_consumer_offsets(
        self, group: str, remote_alias: str, timeout_s: float
    ) -> GroupOffsets: ...

    @overload
    def remote_consumer_offsets(
        self, group: re.Pattern[str], remote_alias: str, timeout_s: float
    ) -> Mapping[str, GroupOffsets]: ...

    def remote_consumer_offsets(
        self, group: str | re.Pattern[str], remote_alias: str, timeout_s: float
    ) -> GroupOffsets | Mapping[str, GroupOffsets]:
        """Return the translated offsets of consumer groups of the cluster `remote_alias`, from its
        checkpoints.

        For a group id, returns the offsets of that group. For a pattern, returns the offsets by
        group id of all groups whose whole id matches. Groups and partitions without a checkpoint
        are omitted. Raises `UnreachableError` on timeout (Java returns incomplete offsets),
        `TopicMissingError` if `remote_alias` has no checkpoints, and `FatalError` if a requested
        group (with a pattern: any group that matches) has a checkpoint that a newer release wrote.
        """
        if isinstance(group, str):
            return _get_group_offsets(
                self._read_checkpoints(group.__eq__, remote_alias, timeout_s), group
            )
        matching = self._read_checkpoints(
            lambda name: group.fullmatch(name) is not None, remote_alias, timeout_s
        )
        return {name: _get_group_offsets(matching, name) for name in matching.list_groups()}

    def _read_checkpoints(
        self, takes_group: NamePredicate, remote_alias: str, timeout_s: float
    ) -> CheckpointTable:
        return checkpoint_reader.read_checkpoints(
            self._topics,
            self._policy,
            remote_alias,
            group_filter=takes_group,
            clock=self._clock,
            timeout_s=timeout_s,
        )

    def _list_matching_topics(self, is_selected: Callable[[str], bool]) -> frozenset[str]:
        return frozenset(filter(is_selected, self._topics.list_topics(self._timeout_s)))


def count_hops(policy: ReplicationPolicy, topic: str, alias: str) -> int | None:
    """Return the number of hops from the cluster `alias` to `topic`, or None if the cluster is not
    upstream of the topic."""
    return next(
        (
            at
            for at, source in enumerate(_trace_upstream_aliases(policy, topic), start=1)
            if source == alias
        ),
        None,
    )


def list_upstream_aliases(policy: ReplicationPolicy, topic: str) -> frozenset[str]:
    """Return the aliases of all clusters through which `topic` was replicated."""
    return frozenset(_trace_upstream_aliases(policy, topic))


def _trace_upstream_aliases(policy: ReplicationPolicy, topic: str) -> list[str]:
    """Return the aliases of the upstream clusters, nearest first. Stops when an alias repeats
    (identity policy)."""
    found: list[str] = []
    upstream: str | None = topic
    while upstream is not None:
        source = policy.topic_source(upstream)
        if source is None or source in found:
            break
        found.append(source)
        upstream = policy.upstream_topic(upstream)
    return found


def _get_group_offsets(table: CheckpointTable, group: str) -> GroupOffsets:
    checkpoint_reader.check_group_readable(table, group)
    return {
        partition: OffsetAndMetadata(offset=point.downstream, metadata=point.metadata)
        for partition, point in sorted(table.get_group_checkpoints(group).items())
    }
