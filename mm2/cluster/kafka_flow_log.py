"""Adapter of `flow_log.FlowLog`: two Kafka topics behind an idempotent producer and a consumer."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.kafka_client import access as kafka_access
from mm2.cluster import admin, flow_log, flow_log_reader, flow_log_topics, flow_log_writer


class KafkaFlowLog:
    """Implements `flow_log.FlowLog`. `target_admin` makes and checks the topics.

    Invariant: writer and reader are both there (open) or both None.
    """

    def __init__(
        self,
        access: kafka_access.Access,
        *,
        source_alias: str,
        client_id: str,
        target_admin: admin.Admin,
        clock: base_clock.Clock,
        replication_factor: int | None,
        bounds: flow_log_writer.Bounds = flow_log_writer.DEFAULT_BOUNDS,
    ) -> None:
        self._access = access
        self._client_id = client_id
        self._names: Mapping[flow_log.LogTopic, str] = flow_log.topic_names(source_alias)
        self._clock = clock
        self._bounds = bounds
        self._topics = flow_log_topics.LogTopics(
            target=target_admin,
            where=access.where,
            bootstrap=",".join(access.bootstrap),
            secured=access.security.protocol != "PLAINTEXT",
            replication_factor=replication_factor,
            clock=clock,
        )
        self._owner: int | None = None
        self._writer: flow_log_writer.FlowLogWriter | None = None
        self._reader: flow_log_reader.FlowLogReader | None = None

    def open(self, timeout_s: float) -> None:
        """See `flow_log.FlowLog`; so for all below."""
        end = base_deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        self.close(0.0)
        self._owner = threading.get_ident()
        self._topics.ensure(list(self._names.values()), end.left_s(self._clock.now_s()))
        self._writer = flow_log_writer.FlowLogWriter(
            self._access,
            client_id=self._client_id,
            topics=self._names,
            clock=self._clock,
            bounds=self._bounds,
        )
        self._reader = flow_log_reader.FlowLogReader(
            self._access, client_id=self._client_id, topics=self._names, clock=self._clock
        )

    def append(
        self,
        topic: flow_log.LogTopic,
        key: bytes,
        value: bytes | None,
        *,
        on_recorded: flow_log.OnRecorded,
    ) -> None:
        self._opened_writer().append(topic, key, value, on_recorded=on_recorded)

    def poll(self, timeout_s: float) -> int:
        self._opened_reader().serve()
        return self._opened_writer().poll(timeout_s)

    @property
    def pending(self) -> int:
        return 0 if self._writer is None else self._writer.pending

    def read_to_end(self, timeout_s: float) -> list[flow_log.LogRecord]:
        recorded = self._opened_writer().recorded_through
        return self._opened_reader().read_to_end(timeout_s, at_least=recorded)

    def close(self, timeout_s: float) -> None:
        writer, self._writer = self._writer, None
        reader, self._reader = self._reader, None
        try:
            if writer is not None:
                writer.close(timeout_s)
        finally:
            if reader is not None:
                reader.close()

    def _opened_writer(self) -> flow_log_writer.FlowLogWriter:
        assert threading.get_ident() == self._owner, (
            "a flow log belongs to the thread that opened it"
        )
        assert self._writer is not None, "open the flow log first"
        return self._writer

    def _opened_reader(self) -> flow_log_reader.FlowLogReader:
        assert self._reader is not None, "open the flow log first"
        return self._reader
