"""Brokers, served by a thread, that answer ListOffsets and Fetch from logs that a test gives them.

Topics have no ids. A log is a list of batches, as `tests.fakes.batches` writes them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode

from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.network.tcp_and_tls_transport import Poller
from connect_runtime.protocol import request_framing
from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from mm2.formats import record_batch
from tests.fakes import batches
from tests.fakes.batches import Record, Stamp
from tests.support import scripted_broker
from tests.support.scripted_broker import Asked, ScriptedBroker

EARLIEST = -2
_ANY_OFFSET = 1 << 64
TIME_MS = 1_700_000_000_000
Twist = Callable[[bytes], bytes]


def batch(*keys: bytes, at: int, codec: int = 0, **more: Any) -> bytes:
    """A batch of records with these keys from offset `at` on; each value is its key twice."""
    stamp = Stamp(base_offset=at, **{"leader_epoch": 1, **more})
    records = [
        Record(key=key, value=key * 2, timestamp=TIME_MS + at + place)
        for place, key in enumerate(keys)
    ]
    return batches.data(records, stamp, codec=codec)


@dataclass
class Log:
    """The log of a partition. `codes`: errors of the next fetches; 0 is none."""

    batches: list[bytes] = field(default_factory=list)
    start: int = 0
    end: int = 0
    stable: int | None = None
    aborted: tuple[tuple[int, int], ...] = ()
    codes: list[int] = field(default_factory=list)
    diverging: int = -1
    fetched: list[int] = field(default_factory=list)

    def read(self, offset: int, end: int, max_bytes: int, *, first: bool) -> bytes:
        """As brokers do: whole batches, but cut off at the limit, unless it is the first of all."""
        left = [each for each in self.batches if offset <= _last_offset(each) < end]
        if not left:
            return b""
        found = b"".join(left)[:max_bytes]
        return left[0] if first and len(found) < len(left[0]) else found


def _last_offset(each: bytes) -> int:
    header = record_batch.read_batch_header(memoryview(each))
    return header.base_offset + max(0, header.last_offset_delta)


class LogBroker:
    """A scripted broker with logs. `twists` change the bytes of an API's responses; instead of
    the next answer to those in `drop_next`, it hangs up."""

    def __init__(self, loop: Poller, logs: dict[tuple[str, int], Log], node_id: int) -> None:
        self.broker = ScriptedBroker(loop, node_id=node_id)
        self.broker.ranges = {"fetch": (12, 12)}
        self.broker.scripts |= {"list_offsets": self._tell_offsets, "fetch": self._tell_batches}
        self.logs = logs
        self.twists: dict[str, Twist] = {}
        self.silent: set[str] = set()
        self.drop_next: set[str] = set()
        self.end_codes: list[int] = []

    def tell(self, asked: Asked, entity: Any) -> None:
        if asked.api in self.drop_next:
            self.drop_next.remove(asked.api)
            asked.link.close()
        elif asked.api not in self.silent:
            body = bytes(request_framing.encode_request_body(entity))
            asked.answer(self.twists.get(asked.api, bytes)(body))

    def _tell_offsets(self, asked: Asked) -> None:
        m = asked.module
        code = self.end_codes.pop(0) if self.end_codes else 0
        self.tell(
            asked,
            asked.response(
                throttle_time=scripted_broker.NO_TIME,
                topics=tuple(
                    m.ListOffsetsTopicResponse(
                        name=topic.name,
                        partitions=tuple(
                            m.ListOffsetsPartitionResponse(
                                partition_index=each.partition_index,
                                error_code=ErrorCode(code),
                                timestamp=-1,
                                offset=self._offset(
                                    self.logs[str(topic.name), each.partition_index],
                                    int(each.timestamp),
                                    committed=bool(asked.entity.isolation_level),
                                ),
                                leader_epoch=1,
                            )
                            for each in topic.partitions
                        ),
                    )
                    for topic in asked.entity.topics
                ),
            ),
        )

    @staticmethod
    def _offset(log: Log, timestamp: int, *, committed: bool) -> int:
        if timestamp == EARLIEST:
            return log.start
        return log.end if log.stable is None or not committed else log.stable

    def _tell_batches(self, asked: Asked) -> None:
        m = asked.module
        size = 0
        topics = []
        for topic in asked.entity.topics:
            parts = []
            for each in topic.partitions:
                log = self.logs[str(topic.topic), each.partition]
                log.fetched.append(int(each.fetch_offset))
                code = log.codes.pop(0) if log.codes else 0
                limit = min(int(each.partition_max_bytes), int(asked.entity.max_bytes) - size)
                stable = log.end if log.stable is None else log.stable
                end = stable if asked.entity.isolation_level else _ANY_OFFSET
                offset = int(each.fetch_offset)
                data = b"" if code else log.read(offset, end, limit, first=not size)
                size += len(data)
                parts.append(
                    m.PartitionData(
                        partition_index=each.partition,
                        error_code=ErrorCode(code),
                        high_watermark=log.end,
                        last_stable_offset=stable,
                        log_start_offset=log.start,
                        diverging_epoch=m.EpochEndOffset(epoch=0, end_offset=log.diverging),
                        aborted_transactions=tuple(
                            m.AbortedTransaction(producer_id=producer, first_offset=first)
                            for producer, first in log.aborted
                        ),
                        preferred_read_replica=-1,
                        records=data,
                    )
                )
            topics.append(m.FetchableTopicResponse(topic=topic.topic, partitions=tuple(parts)))
        self.tell(
            asked,
            asked.response(
                throttle_time=scripted_broker.NO_TIME,
                error_code=0,
                session_id=0,
                responses=tuple(topics),
            ),
        )


@dataclass
class LogCluster:
    """Brokers 1, 2, …; `lead` says which leads each log. The first one is the bootstrap broker."""

    logs: dict[tuple[str, int], Log]
    brokers: list[LogBroker]

    def lead(self, leaders: dict[str, tuple[int, ...]]) -> None:
        for each in self.brokers:
            each.broker.topics = dict(leaders)

    def twist_metadata(self, twist: Twist) -> None:
        """Change the bytes of metadata responses."""
        for each in self.brokers:
            each.broker.twist_metadata = twist

    @property
    def access(self) -> KafkaClusterAccess:
        return KafkaClusterAccess(name="hostile", bootstrap=(self.brokers[0].broker.address,))

    def asked(self, api: str, *, node: int = 1) -> list[Asked]:
        return self.brokers[node - 1].broker.requests(api)


@contextlib.contextmanager
def serve(logs: dict[tuple[str, int], Log], *, brokers: int = 1) -> Iterator[LogCluster]:
    """All logs are led by broker 1, until a test says otherwise."""
    loop = Poller()
    made = [LogBroker(loop, logs, node_id) for node_id in range(1, brokers + 1)]
    for each in made:
        each.broker.others = [other.broker for other in made if other is not each]
    cluster = LogCluster(logs, made)
    names = sorted({topic for topic, _ in logs})
    cluster.lead({name: (1,) * sum(topic == name for topic, _ in logs) for name in names})

    def run(stop: threading.Event) -> None:
        while not stop.is_set():
            loop.poll(0.02)

    failed: list[UnexpectedThreadEnd] = []
    threads = ThreadGroup(on_unexpected_end=failed.append)
    threads.start("serves", run)
    try:
        yield cluster
    finally:
        assert threads.stop_all(5.0) == []
        for each in made:
            each.broker.close()
        loop.close()
    assert failed == []
