"""Topics in memory, and a `state_topics.StateTopics` over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from connect_runtime.base.errors import ConnectError
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2.kafka.kafka_client_interfaces import RecordHandler, TopicRecord

Record = tuple[bytes | None, bytes | None]


class FakeStateTopics:
    """Implements `StateTopics`; nothing takes time.

    `failure`: what every question answers. `timeouts_s` are those of the questions asked, `time_ms`
    is the timestamp of every record.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.topics: dict[str, Sequence[Record]] = dict.fromkeys(names, ())
        self.failure: ConnectError | None = None
        self.timeouts_s: list[float] = []
        self.time_ms = -1
        self.closed = False

    def list_topics(self, timeout_s: float) -> frozenset[str]:
        self._answer(timeout_s)
        return frozenset(self.topics)

    def read_topic(
        self, topic: str, timeout_s: float, take: RecordHandler, *, partitions: int = 1
    ) -> None:
        self._answer(timeout_s)
        if topic not in self.topics:
            raise TopicMissingError(f"reading {topic}: there is none")
        for offset, (key, value) in enumerate(tuple(self.topics[topic])):
            take(
                TopicRecord(topic=topic, offset=offset, key=key, value=value, time_ms=self.time_ms)
            )

    def close(self) -> None:
        self.closed = True

    def _answer(self, timeout_s: float) -> None:
        assert not self.closed
        self.timeouts_s.append(timeout_s)
        if self.failure is not None:
            raise self.failure
