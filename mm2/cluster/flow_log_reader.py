"""Reads a flow's log: its two topics, whose records all have keys."""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from connect_runtime.kafka_client import access as kafka_access
from mm2.cluster import flow_log, state_topics, topic_reader


class FlowLogReader:
    """One reader's life, under the names that a flow knows."""

    def __init__(
        self,
        access: kafka_access.Access,
        *,
        client_id: str,
        topics: Mapping[flow_log.LogTopic, str],
        clock: base_clock.Clock,
    ) -> None:
        self._where = access.where
        self._names = dict(topics)
        self._topics = {name: topic for topic, name in topics.items()}
        self._foreign: errors.FatalError | None = None
        self._reader = topic_reader.TopicReader(
            access, client_id=client_id, topics=tuple(topics.values()), clock=clock
        )

    def read_to_end(
        self, timeout_s: float, *, at_least: Mapping[flow_log.LogTopic, int]
    ) -> list[flow_log.LogRecord]:
        """See `FlowLog.read_to_end`. `at_least`: end offsets that are known to be reached."""
        if self._foreign is None:
            ends = {self._names[topic]: offset for topic, offset in at_least.items()}
            return [
                self._record(each) for each in self._reader.read_to_end(timeout_s, at_least=ends)
            ]
        raise self._foreign  # what stood behind it was read, and is not handed out any more

    def serve(self) -> None:
        """Let the library say what it has to say; between reads it has no records to give."""
        self._reader.serve()

    def close(self) -> None:
        self._reader.close()

    def _record(self, found: state_topics.TopicRecord) -> flow_log.LogRecord:
        if found.key is None:
            self._foreign = errors.FatalError(
                f"reading {found.topic} on {self._where}: the record at offset {found.offset} has "
                "no key, so it is not ours, and was written before the topic was compacted; find "
                "out who writes there, and remove it with kafka-delete-records"
            )
            raise self._foreign
        return flow_log.LogRecord(
            topic=self._topics[found.topic],
            offset=found.offset,
            key=found.key,
            value=found.value,
        )
