"""Groups that are no consumer groups, made without a JVM: share groups (KIP-932) and streams groups
(KIP-1071) with offsets, and without members."""

from __future__ import annotations

import contextlib
import datetime
import random
from collections.abc import Mapping
from typing import Any

import confluent_kafka

from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.admin_requests import AdminRequest, AdminRequestClient
from connect_runtime.protocol import request_builders
from connect_runtime.protocol.request_builders import CoordinatorKey, RequestBuilder
from mm2.kafka.consumer_groups import KafkaGroups
from mm2.offsets.checkpoint_rules import OffsetAndMetadata
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import cluster_access, kafka

WAIT_S = 60.0


def share_group(
    at: SandboxCluster, group: str, start_offsets: Mapping[TopicPartition, int]
) -> None:
    """As `kafka-share-groups.sh --reset-offsets` makes one."""

    def build(_: int, m: Any) -> Any:
        return m.AlterShareGroupOffsetsRequest(
            group_id=group,
            topics=tuple(
                m.AlterShareGroupOffsetsRequestTopic(
                    topic_name=place.topic,
                    partitions=(
                        m.AlterShareGroupOffsetsRequestPartition(
                            partition_index=place.partition, start_offset=offset
                        ),
                    ),
                )
                for place, offset in start_offsets.items()
            ),
        )

    message = RequestBuilder(api="alter_share_group_offsets", low=0, high=0, build=build)

    def alter() -> None:
        """Partitions have errors of their own, as long as the topic of share groups' state is new:
        then there is no group either."""
        for topic in _ask(at, group, message).responses:
            for partition in topic.partitions:
                if partition.error_code:
                    code = int(partition.error_code)
                    raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(code))

    kafka.retried(alter)


def streams_group(at: SandboxCluster, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """A member joins with a topology that reads the topics, leaves, and offsets are committed."""
    topics = tuple(sorted({each.topic for each in offsets}))
    for epoch in (0, -1):
        _ask(at, group, _heartbeat(group, topics, epoch))
    groups = KafkaGroups(
        cluster_access.of(at), client_id="test-streams", clock=cluster_access.CLOCK
    )
    with contextlib.closing(groups):
        given = {place: OffsetAndMetadata(offset=each) for place, each in offsets.items()}
        assert groups.commit_offsets({group: given}, WAIT_S).succeeded == {group: {}}


def _heartbeat(group: str, topics: tuple[str, ...], epoch: int) -> RequestBuilder:
    def build(_: int, m: Any) -> Any:
        joins = epoch == 0
        subtopology = m.Subtopology(
            subtopology_id="0",
            source_topics=topics,
            state_changelog_topics=(),
            repartition_source_topics=(),
            copartition_groups=(),
        )
        return m.StreamsGroupHeartbeatRequest(
            group_id=group,
            member_id="one",
            member_epoch=epoch,
            endpoint_information_epoch=0,
            rebalance_timeout=datetime.timedelta(seconds=10),
            topology=m.Topology(epoch=0, subtopologies=(subtopology,)) if joins else None,
            active_tasks=() if joins else None,
            standby_tasks=() if joins else None,
            warmup_tasks=() if joins else None,
            process_id="process",
            client_tags=() if joins else None,
            task_offsets=None,
            task_end_offsets=None,
        )

    return RequestBuilder(api="streams_group_heartbeat", low=0, high=0, build=build)


def _ask(at: SandboxCluster, group: str, message: RequestBuilder) -> Any:
    calls = AdminRequestClient(
        cluster_access.of(at).to_connection_settings("test-other-groups"),
        clock=cluster_access.CLOCK,
        rng=random.Random(),
    )
    with contextlib.closing(calls):
        question = AdminRequest(
            to=CoordinatorKey(request_builders.GROUP_COORDINATOR, group),
            message=message,
            doing=f"making group {group}",
            get_error_code=lambda body: int(body.error_code),
        )
        return calls.send_request(question, WAIT_S)
