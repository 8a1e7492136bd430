"""Where partitions' logs begin and end, asked leader by leader: one that is away must not be waited
for on behalf of all."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors, ids
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.app.looks import sides
from mm2.cluster import admin, logs
from mm2.core.offsets import log_ends

Topics = admin.PerTopic[admin.TopicDescription]
Led = Mapping[ids.TopicPartition, int | errors.ConnectError]
"""By partition the broker that leads it, or why there is none to be asked."""
NO_LEADER = "no broker leads it"


class NoLeaderError(errors.RetriableError):
    """There is nobody who could be asked, and not one who does not answer."""


def of_topics(topics: Topics) -> Iterator[ids.TopicPartition]:
    """All partitions of those that were described."""
    for name, topic in topics.done.items():
        for number in range(topic.partitions):
            yield ids.TopicPartition(name, number)


def leaders(partitions: Collection[ids.TopicPartition], topics: Topics) -> Led:
    """By what was told of their topics."""
    return {each: _leader(each, topics) for each in partitions}


def look(
    side: sides.OneSide,
    led: Led,
    *,
    end: base_deadline.Deadline,
    clock: base_clock.Clock,
    raises: bool = False,
) -> logs.PerPartition[log_ends.Ends]:
    """A leader that is away takes its share of the time that is left. `raises`: `RetriableError`
    where none of them answers."""
    done: dict[ids.TopicPartition, log_ends.Ends] = {}
    failed: dict[ids.TopicPartition, errors.ConnectError] = {}
    asked: dict[int, list[ids.TopicPartition]] = {}
    for each, leader in sorted(led.items(), key=lambda item: item[0]):
        if isinstance(leader, int):
            asked.setdefault(leader, []).append(each)
        else:
            failed[each] = leader
    silent: list[errors.RetriableError] = []
    for number, mine in enumerate(asked.values()):
        share_s = end.left_s(clock.now_s()) / (len(asked) - number)
        try:
            answer = side.logs.ends(mine, share_s)
        except errors.RetriableError as error:
            silent.append(error)
            failed |= dict.fromkeys(mine, error)
        else:
            done |= answer.done
            failed |= answer.failed
    if raises and silent and len(silent) == len(asked):
        raise silent[0]
    return logs.PerPartition(done=done, failed=failed)


def unheard(found: logs.PerPartition[log_ends.Ends]) -> dict[ids.TopicPartition, str]:
    """Those that may be there all the same, and why nobody can say."""
    return {
        each: str(error)
        for each, error in found.failed.items()
        if not isinstance(error, kafka_errors.TopicMissingError)
    }


def _leader(partition: ids.TopicPartition, topics: Topics) -> int | errors.ConnectError:
    topic = topics.done.get(partition.topic)
    if topic is None:
        return topics.failed[partition.topic]
    if partition.partition >= topic.partitions:
        return kafka_errors.TopicMissingError(f"there is no {partition}")
    leader = topic.leaders[partition.partition]
    return NoLeaderError(NO_LEADER) if leader is None else leader
