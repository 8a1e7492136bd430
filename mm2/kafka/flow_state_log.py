"""Implements `FlowStateLog` with Kafka: a flow's offset map and incident topics."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import FatalError
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from mm2.kafka import flow_state_log_writer, kafka_client_interfaces
from mm2.kafka.flow_state_log_writer import FlowStateLogWriter, UnacknowledgedRecordLimits
from mm2.kafka.flow_state_topics import FlowStateTopics
from mm2.kafka.kafka_client_interfaces import (
    Admin,
    FlowStateTopic,
    OnRecorded,
    StoredLogRecord,
    StoredRecordHandler,
    TopicRecord,
)
from mm2.kafka.state_topic_reader import TopicReader


class FlowStateLogReader:
    """Reads the topics of a flow's log (offset map and incidents)."""

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        client_id: str,
        topics: Mapping[FlowStateTopic, str],
        clock: Clock,
    ) -> None:
        self._where = access.name_and_addresses
        self._names = dict(topics)
        self._topics = {name: topic for topic, name in topics.items()}
        self._reader = TopicReader(
            access, client_id=client_id, topics=tuple(topics.values()), clock=clock
        )

    def read_to_end(
        self,
        timeout_s: float,
        take: StoredRecordHandler,
        *,
        at_least: Mapping[FlowStateTopic, int],
    ) -> None:
        """Read all records since the last call, like `FlowStateLog.read_to_end`. `at_least`
        contains end offsets that the topics are known to have reached."""
        self._reader.read_to_end(
            timeout_s,
            lambda record: take(self._to_stored_record(record)),
            at_least={self._names[topic]: offset for topic, offset in at_least.items()},
        )

    def close(self) -> None:
        self._reader.close()

    def _to_stored_record(self, found: TopicRecord) -> StoredLogRecord:
        if found.key is None:
            raise FatalError(
                f"reading {found.topic} on {self._where}: the record at offset {found.offset} has "
                "no key, so another program wrote it before the topic was compacted; find "
                "that program, and remove the record with kafka-delete-records"
            )
        return StoredLogRecord(
            topic=self._topics[found.topic],
            offset=found.offset,
            key=found.key,
            value=found.value,
        )


class KafkaFlowStateLog:
    """Implements `FlowStateLog`, where the methods are documented. Creates and validates the
    topics through `target_admin`.

    Invariant: writer and reader are either both present (open) or both None.
    """

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        source_alias: str,
        client_id: str,
        target_admin: Admin,
        clock: Clock,
        replication_factor: int | None,
        limits: UnacknowledgedRecordLimits = flow_state_log_writer.DEFAULT_UNACKNOWLEDGED_LIMITS,
    ) -> None:
        self._access = access
        self._client_id = client_id
        self._names: Mapping[FlowStateTopic, str] = (
            kafka_client_interfaces.build_flow_state_topic_names(source_alias)
        )
        self._clock = clock
        self._bounds = limits
        self._topics = FlowStateTopics(
            target=target_admin,
            where=access.name_and_addresses,
            bootstrap=",".join(access.bootstrap),
            secured=access.security.protocol != "PLAINTEXT",
            replication_factor=replication_factor,
            clock=clock,
        )
        self._owner: int | None = None
        self._writer: FlowStateLogWriter | None = None
        self._reader: FlowStateLogReader | None = None

    def open(self, timeout_s: float) -> None:
        """Create and validate the flow's topics on the target, and connect."""
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        self.close(0.0)
        self._owner = threading.get_ident()
        self._topics.ensure_topics(list(self._names.values()), end.remaining_s(self._clock.now_s()))
        self._writer = FlowStateLogWriter(
            self._access,
            client_id=self._client_id,
            topics=self._names,
            clock=self._clock,
            limits=self._bounds,
        )
        self._reader = FlowStateLogReader(
            self._access, client_id=self._client_id, topics=self._names, clock=self._clock
        )

    def append(
        self,
        topic: FlowStateTopic,
        key: bytes,
        value: bytes | None,
        *,
        on_recorded: OnRecorded,
    ) -> None:
        self._get_writer().append(topic, key, value, on_recorded=on_recorded)

    def poll(self, timeout_s: float) -> int:
        return self._get_writer().poll(timeout_s)

    @property
    def pending_record_count(self) -> int:
        return 0 if self._writer is None else self._writer.pending_record_count

    def read_to_end(self, timeout_s: float, take: StoredRecordHandler) -> None:
        recorded = self._get_writer().next_offsets
        self._get_reader().read_to_end(timeout_s, take, at_least=recorded)

    def close(self, timeout_s: float) -> None:
        writer, self._writer = self._writer, None
        reader, self._reader = self._reader, None
        try:
            if writer is not None:
                writer.close(timeout_s)
        finally:
            if reader is not None:
                reader.close()

    def _get_writer(self) -> FlowStateLogWriter:
        assert threading.get_ident() == self._owner, (
            "a flow log must be used only by the thread that opened it"
        )
        assert self._writer is not None, "open the flow log first"
        return self._writer

    def _get_reader(self) -> FlowStateLogReader:
        assert self._reader is not None, "open the flow log first"
        return self._reader
