"""A Connect cluster seen from outside: what its status topic says, and how its group stands.

Neither worker is asked: records are read by an ordinary consumer, with the times at which the
broker appended them, and the group coordinator is asked how it stands about every 20 ms.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, Self

import confluent_kafka
from kio.schema.describe_groups.v1 import request, response
from kio.schema.errors import ErrorCode
from kio.schema.request_header.v1.header import RequestHeader
from kio.schema.response_header.v0.header import ResponseHeader
from kio.schema.types import GroupId
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

from connect_runtime.system.system_clock import SystemClock
from tests.bench.asked import Connection
from tests.bench.task_runs import Item, Said
from tests.support import kafka
from tests.support.kafka import Properties

PARTITIONS = 5
_AT_ONCE = 1000
_WAIT_S = 0.02
_TASK = "status-task-"
_CONNECTOR = "status-connector-"
_STABLE = "Stable"
_CLOCK = SystemClock()

_read_header = entity_reader(ResponseHeader)
_read_response = entity_reader(response.DescribeGroupsResponse)
_write_header = entity_writer(RequestHeader)
_write_request = entity_writer(request.DescribeGroupsRequest)


def make_topic(client: Properties, topic: str) -> None:
    """A status topic whose records bear the broker's time."""
    settings = {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}
    kafka.create_topic(client, topic, partitions=PARTITIONS, config=settings)


class Watch:
    """`said` since the last `begin`; `noticed_ms` when the coordinator first stood otherwise.

    `generation` is the newest that was ever said. Use it in a `with`, and `look` again and again.
    """

    def __init__(self, client: Properties, group_id: str, *, topic: str) -> None:
        self.said: list[Said] = []
        self.noticed_ms: int | None = None
        self.generation = 0
        self._members: frozenset[str] = frozenset()
        self._stands = ""
        self._quiet_since_s = _CLOCK.now_s()
        self._question = _question(group_id)
        self._coordinator = Connection(client["bootstrap.servers"])
        config = kafka.client_config(
            client, group_id="bench-watch", enable_auto_commit=False, fetch_wait_max_ms=10
        )
        self._consumer = confluent_kafka.Consumer(config)
        beginning = confluent_kafka.OFFSET_BEGINNING
        self._consumer.assign(
            [confluent_kafka.TopicPartition(topic, each, beginning) for each in range(PARTITIONS)]
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()
        self._coordinator.close()

    @property
    def quiet_s(self) -> float:
        """For how long nothing was said, and the group was stable; 0 while it is not."""
        return _CLOCK.now_s() - self._quiet_since_s if self._stands == _STABLE else 0.0

    @property
    def members(self) -> int:
        """Of the group."""
        return len(self._members)

    def begin(self) -> None:
        """What comes now belongs to what is done now."""
        self.said = []
        self.noticed_ms = None

    def look(self) -> None:
        """What is new; takes 20 ms if it is nothing."""
        self._ask()
        for message in self._consumer.consume(_AT_ONCE, timeout=_WAIT_S):
            error = message.error()
            if error is not None and not error.retriable():
                raise confluent_kafka.KafkaException(error)
            if error is not None:
                continue
            _, at_ms = message.timestamp()
            told = said(message.key() or b"", message.value(), at_ms=at_ms)
            if told is not None:
                self.said.append(told)
                self.generation = max(self.generation, told.generation)
                self._quiet_since_s = _CLOCK.now_s()

    def _ask(self) -> None:
        self._coordinator.send(self._question)
        stands, members = standing(self._coordinator.answer())
        if (stands, members) != (self._stands, self._members):
            self._stands, self._members = stands, members
            self._quiet_since_s = _CLOCK.now_s()
            if self.noticed_ms is None:
                self.noticed_ms = _CLOCK.wall_ms()


def said(key: bytes, value: bytes | None, *, at_ms: int) -> Said | None:
    """None for a record that is not about a connector or a task."""
    item = _item(key.decode())
    if item is None:
        return None
    told: Mapping[str, Any] = json.loads(value or b"{}")
    return Said(
        item=item,
        state=told.get("state"),
        worker=told.get("worker_id", ""),
        generation=told.get("generation", 0),
        at_ms=at_ms,
    )


def _item(key: str) -> Item | None:
    if key.startswith(_CONNECTOR):
        return Item(key.removeprefix(_CONNECTOR))
    if key.startswith(_TASK):
        connector, _, task = key.removeprefix(_TASK).rpartition("-")
        return Item(connector, int(task))
    return None


def standing(answer: bytes) -> tuple[str, frozenset[str]]:
    """The group's state and its members' ids; `RuntimeError` if the coordinator refuses."""
    _, read = _read_header(answer, 0)
    (group,) = _read_response(answer, read)[0].groups
    if group.error_code is not ErrorCode.none:
        raise RuntimeError(f"asking how a group stands: {group.error_code.name}")
    return group.group_state, frozenset(each.member_id for each in group.members)


def _question(group_id: str) -> bytes:
    body = io.BytesIO()
    header = RequestHeader(
        request_api_key=request.DescribeGroupsRequest.__api_key__,
        request_api_version=i16(1),
        correlation_id=i32(0),
        client_id="bench-watch",
    )
    _write_header(body, header)
    _write_request(body, request.DescribeGroupsRequest(groups=(GroupId(group_id),)))
    return body.getvalue()
