"""Many consumer groups without members, each at a place of its own: where they stand on the other
cluster, and whether that is exact.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import confluent_kafka

from tests.support import kafka
from tests.support.kafka import Properties

_REQUEST_S = 60.0

Stands = dict[str, dict[tuple[str, int], int]]
"""By group, and by topic and partition."""


class Groups:
    """`count` groups, whose names begin with "many-"."""

    def __init__(self, source: Properties, target: Properties, count: int) -> None:
        self.names = [f"many-{number:04}" for number in range(count)]
        self._sides = (source, target)
        self._source, self._target = map(kafka.admin_client, self._sides)

    def commit(self, topic: str, *, partitions: int) -> None:
        """Each somewhere in what the source's log holds now, or right behind it."""
        chosen = random.Random(7)
        ends = [kafka.offsets(self._sides[0], topic, number)[1] for number in range(partitions)]
        asked = []
        for name in self.names:
            places = [
                confluent_kafka.TopicPartition(topic, number, chosen.randint(0, end))
                for number, end in enumerate(ends)
            ]
            request = confluent_kafka.ConsumerGroupTopicPartitions(name, places)
            asked.append((request, self._source.alter_consumer_group_offsets([request])[name]))
        for request, future in asked:
            self._insist(request, future)

    def _insist(self, request: confluent_kafka.ConsumerGroupTopicPartitions, first: Any) -> None:
        """Until the first answer, or that of the request repeated, has no error."""
        futures = [first]

        def written() -> None:
            future = (
                futures.pop()
                if futures
                else self._source.alter_consumer_group_offsets([request])[request.group_id]
            )
            kafka.insist(future.result(_REQUEST_S).topic_partitions)

        kafka.retried(written)

    def stand(self) -> Stands:
        """Those that stand anywhere on the target."""
        return self._positions(self._target)

    def check(self, topic: str, mirror: str) -> None:
        """Every group goes on with the record that it would have read next, by the two logs."""
        here, there = self._positions(self._source), self._positions(self._target)
        partitions = sorted({number for each in here.values() for _, number in each})
        logs = {number: self._logs(topic, mirror, number) for number in partitions}
        wrong = [
            f"{name}, partition {number}: {at} is {there.get(name, {}).get((mirror, number))}"
            for name in self.names
            for (_, number), at in here[name].items()
            if not _same(*logs[number], at, there.get(name, {}).get((mirror, number)))
        ]
        assert not wrong, wrong[:10]

    def _logs(
        self, topic: str, mirror: str, number: int
    ) -> tuple[Mapping[int, bytes | None], Mapping[int, bytes | None]]:
        """Which record an offset leads to: the first one there or behind it, none at the end."""
        source, target = self._sides
        return _next(source, topic, number), _next(target, mirror, number)

    def _positions(self, client: confluent_kafka.admin.AdminClient) -> Stands:
        def ask() -> Stands:
            asked = {
                name: client.list_consumer_group_offsets(
                    [confluent_kafka.ConsumerGroupTopicPartitions(name)]
                )[name]
                for name in self.names
            }
            return {
                name: {
                    (each.topic, each.partition): each.offset
                    for each in future.result(_REQUEST_S).topic_partitions
                }
                for name, future in asked.items()
            }

        return {name: places for name, places in kafka.retried(ask).items() if places}


def _same(
    here: Mapping[int, bytes | None],
    there: Mapping[int, bytes | None],
    at: int,
    stands: int | None,
) -> bool:
    return stands is not None and stands in there and here[at] == there[stands]


def _next(at: Properties, topic: str, number: int) -> dict[int, bytes | None]:
    start, end = kafka.offsets(at, topic, number)
    found: dict[int, bytes | None] = {}
    behind = start
    for record in kafka.read_partition(at, topic, number):
        found |= dict.fromkeys(range(behind, record.offset + 1), record.value)
        behind = record.offset + 1
    return found | dict.fromkeys(range(behind, end + 1))
