"""Fetches the start and end offsets of partitions, one leader at a time.

Each leader is allotted a share of the timeout, so a broker that does not respond delays only its
own partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2.clusters.flow_cluster_pair import FlowSide
from mm2.kafka.kafka_client_interfaces import PerPartitionResult, PerTopicResult, TopicDescription
from mm2.offsets.log_start_and_end_offsets import LogBounds

DescribedTopics = PerTopicResult[TopicDescription]
PartitionLeaders = Mapping[TopicPartition, int | ConnectError]
"""Leader of each partition, or the error that explains why no leader can be queried."""
NO_LEADER = "it has no leader"


class NoLeaderError(RetriableError):
    """The partition has no leader, so no broker can be queried."""


def list_partitions(topics: DescribedTopics) -> Iterator[TopicPartition]:
    """Yield all partitions of the topics in these topic descriptions."""
    for name, topic in topics.succeeded.items():
        for number in range(topic.partition_count):
            yield TopicPartition(name, number)


def find_leaders(
    partitions: Collection[TopicPartition], topics: DescribedTopics
) -> PartitionLeaders:
    """Return each partition's leader according to the topic descriptions, or the error that
    explains why it has none."""
    return {each: _find_leader(each, topics) for each in partitions}


def fetch_log_ends(
    side: FlowSide,
    led: PartitionLeaders,
    *,
    end: Deadline,
    clock: Clock,
    raises: bool = False,
) -> PerPartitionResult[LogBounds]:
    """Fetch the log bounds (start and end offset) of partitions. A leader that does not respond
    uses up only its share of the remaining time.

    If `raises` is True, raises `RetriableError` if no leader responds.
    """
    done: dict[TopicPartition, LogBounds] = {}
    failed: dict[TopicPartition, ConnectError] = {}
    asked: dict[int, list[TopicPartition]] = {}
    for each, leader in sorted(led.items(), key=lambda item: item[0]):
        if isinstance(leader, int):
            asked.setdefault(leader, []).append(each)
        else:
            failed[each] = leader
    silent: list[RetriableError] = []
    for number, mine in enumerate(asked.values()):
        share_s = end.remaining_s(clock.now_s()) / (len(asked) - number)
        try:
            answer = side.logs.fetch_log_bounds(mine, share_s)
        except RetriableError as error:
            silent.append(error)
            failed |= dict.fromkeys(mine, error)
        else:
            done |= answer.succeeded
            failed |= answer.failed
    if raises and silent and len(silent) == len(asked):
        raise silent[0]
    return PerPartitionResult(succeeded=done, failed=failed)


def list_partitions_without_response(
    found: PerPartitionResult[LogBounds],
) -> dict[TopicPartition, str]:
    """Return the partitions that may exist but for which no broker responded, with the reason."""
    return {
        each: str(error)
        for each, error in found.failed.items()
        if not isinstance(error, TopicMissingError)
    }


def _find_leader(partition: TopicPartition, topics: DescribedTopics) -> int | ConnectError:
    topic = topics.succeeded.get(partition.topic)
    if topic is None:
        return topics.failed[partition.topic]
    if partition.partition >= topic.partition_count:
        return TopicMissingError(f"partition {partition} does not exist")
    leader = topic.leaders[partition.partition]
    return NoLeaderError(NO_LEADER) if leader is None else leader
