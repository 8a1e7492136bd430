"""`MirrorClient`: mirror topics, upstream clusters and checkpointed offsets found on one cluster.

Python version of MirrorMaker 2's `MirrorClient`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias, overload

from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock
from connect_runtime.system.clock import SystemClock
from mm2.client import mirror_client_config
from mm2.client.mirror_client_config import ClientProperties
from mm2.kafka import checkpoint_reader
from mm2.kafka.client_interfaces import StateTopics
from mm2.offsets.checkpoint_rules import CheckpointTable, NamePredicate, OffsetAndMetadata
from mm2.topics import naming
from mm2.topics.naming import ReplicationPolicy

_REQUEST_TIMEOUT_S = 60.0

GroupOffsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]
"""Where one group goes on, by partitions of the cluster asked."""


class MirrorClient:
    """Asks one cluster, the one that `properties` name; use it in `with`, or `close` it.

    Every question raises `RetriableError` or `FatalError`, whose message says what to do.
    One thread at a time asks.
    """

    def __init__(
        self,
        properties: ClientProperties,
        *,
        timeout_s: float = _REQUEST_TIMEOUT_S,
        topics: StateTopics | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`properties` in Java's spelling: `bootstrap.servers`, `security.*`, `ssl.*`, `sasl.*`,
        `replication.policy.*`; `mirror_client_config` has the rest. Nothing is asked of the cluster
        yet.

        `timeout_s` bounds each question that has no bound of its own. `topics` stands for the
        cluster where there is another way to it. Raises `FatalError` for wrong properties.
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
        """Let go of the connections."""
        self._topics.close()

    @property
    def replication_policy(self) -> ReplicationPolicy:
        """How topics are named that were mirrored."""
        return self._policy

    def replication_hops(self, upstream_alias: str) -> int | None:
        """The fewest clusters that records of `upstream_alias` pass to get here, this one counted.

        Told by mirrored heartbeats. None, where Java says -1: nothing comes from there.
        """
        found = (
            count_hops(self._policy, topic, upstream_alias) for topic in self.heartbeat_topics()
        )
        return min((each for each in found if each is not None), default=None)

    def heartbeat_topics(self) -> frozenset[str]:
        """Heartbeats written here and mirrored from elsewhere."""
        return self._listed(lambda topic: naming.is_heartbeats_topic(self._policy, topic))

    def checkpoint_topics(self) -> frozenset[str]:
        """One for each cluster that groups' positions come from."""
        return self._listed(self._policy.is_checkpoints_topic)

    def upstream_clusters(self) -> frozenset[str]:
        """Aliases of all clusters that heartbeats get here from, over any number of hops."""
        found = (list_upstream_aliases(self._policy, topic) for topic in self.heartbeat_topics())
        return frozenset().union(*found)

    def remote_topics(self, source: str | None = None) -> frozenset[str]:
        """Mirror topics; with `source`, those that come directly from there.

        With the identity policy every topic seems to come from `source.cluster.alias`.
        """

        def is_wanted(topic: str) -> bool:
            if naming.is_internal_topic(self._policy, topic):
                return False
            found = self._policy.topic_source(topic)
            return found is not None and source in (None, found)

        return self._listed(is_wanted)

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
        """Where consumers of the cluster `remote_alias` go on here, by its checkpoints.

        Of one group, or by name of all whose whole name a pattern matches. Groups and partitions
        without a checkpoint are left out. All or nothing: where Java gives what it has read when
        time is up, this raises `UnreachableError`; where there are no checkpoints of
        `remote_alias`, `TopicMissingError`.
        """
        if isinstance(group, str):
            return _get_group_offsets(
                self._checkpoints(group.__eq__, remote_alias, timeout_s), group
            )
        matching = self._checkpoints(
            lambda name: group.fullmatch(name) is not None, remote_alias, timeout_s
        )
        return {name: _get_group_offsets(matching, name) for name in matching.groups()}

    def _checkpoints(
        self, takes_group: NamePredicate, remote_alias: str, timeout_s: float
    ) -> CheckpointTable:
        return checkpoint_reader.read_checkpoints(
            self._topics,
            self._policy,
            remote_alias,
            takes_group=takes_group,
            clock=self._clock,
            timeout_s=timeout_s,
        )

    def _listed(self, is_wanted: Callable[[str], bool]) -> frozenset[str]:
        return frozenset(filter(is_wanted, self._topics.list_topics(self._timeout_s)))


def count_hops(policy: ReplicationPolicy, topic: str, alias: str) -> int | None:
    """How many clusters ago `topic` was on `alias`; None: it was not."""
    return next(
        (
            at
            for at, source in enumerate(_trace_upstream_aliases(policy, topic), start=1)
            if source == alias
        ),
        None,
    )


def list_upstream_aliases(policy: ReplicationPolicy, topic: str) -> frozenset[str]:
    """Aliases of all clusters that `topic` came by."""
    return frozenset(_trace_upstream_aliases(policy, topic))


def _trace_upstream_aliases(policy: ReplicationPolicy, topic: str) -> list[str]:
    """Nearest first. Ends where one comes again: a policy that does not rename goes in circles."""
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
    return {
        partition: OffsetAndMetadata(offset=point.downstream, metadata=point.metadata)
        for partition, point in sorted(table.group(group).items())
    }
