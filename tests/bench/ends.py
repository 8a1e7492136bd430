"""How far a topic is on a broker: the high watermarks, asked for again and again.

Its own few lines of protocol over one connection. An ordinary client remembers for seconds that a
topic was not there, or where its leader was; here that would be a measuring error.
"""

from __future__ import annotations

import io

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v2 import request, response
from kio.schema.request_header.v1.header import RequestHeader
from kio.schema.response_header.v0.header import ResponseHeader
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i8, i16, i32, i64

from tests.bench.asked import Connection

_LATEST = i64(-1)
_NOT_YET = {
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.leader_not_available,
    ErrorCode.not_leader_or_follower,
}

_read_header = entity_reader(ResponseHeader)
_read_response = entity_reader(response.ListOffsetsResponse)
_write_header = entity_writer(RequestHeader)
_write_request = entity_writer(request.ListOffsetsRequest)


class Ends:
    """Of one topic with `partitions` partitions; every broker at `bootstrap` is asked for all."""

    def __init__(self, bootstrap: str, topic: str, *, partitions: int) -> None:
        self._question = _question(topic, partitions)
        self._connections = [Connection(address) for address in bootstrap.split(",")]

    def now(self) -> dict[int, int]:
        """By partition; 0 where there is no such partition yet. `OSError` when nobody answers."""
        for connection in self._connections:
            connection.send(self._question)
        ends: dict[int, int] = {}
        for connection in self._connections:
            for number, end in _answer(connection).items():
                # Only its leader knows a partition's end; of the others it is 0.
                ends[number] = max(end, ends.get(number, 0))
        return ends

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


def _answer(connection: Connection) -> dict[int, int]:
    answer = connection.answer()
    _, read = _read_header(answer, 0)
    parsed, _ = _read_response(answer, read)
    return {
        each.partition_index: offset_of(each)
        for topic in parsed.topics
        for each in topic.partitions
    }


def _question(topic: str, partitions: int) -> bytes:
    body = io.BytesIO()
    header = RequestHeader(
        request_api_key=request.ListOffsetsRequest.__api_key__,
        request_api_version=i16(2),
        correlation_id=i32(0),
        client_id="bench-ends",
    )
    _write_header(body, header)
    wanted = tuple(
        request.ListOffsetsPartition(partition_index=i32(number), timestamp=_LATEST)
        for number in range(partitions)
    )
    question = request.ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=i8(0),
        topics=(request.ListOffsetsTopic(name=TopicName(topic), partitions=wanted),),
    )
    _write_request(body, question)
    return body.getvalue()


def offset_of(answer: response.ListOffsetsPartitionResponse) -> int:
    """0 for a partition that is not there yet; `RuntimeError` for what should not happen."""
    if answer.error_code in _NOT_YET:
        return 0
    if answer.error_code is not ErrorCode.none:
        raise RuntimeError(f"asking for end offsets: {answer.error_code.name}")
    return max(0, answer.offset)
