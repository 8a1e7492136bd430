"""Header names that are not UTF-8, which any producer may write, are read without harm."""

from __future__ import annotations

import random

import pytest

from connect_runtime.kafka import internal_topic_writer, librdkafka_clients
from connect_runtime.kafka.client_errors import RecentConnectionErrors
from connect_runtime.system.system_clock import SystemClock
from mm2.copier.blocking_client import BlockingClient
from mm2.formats import record_codec
from mm2.formats.record_codec import BatchRecord, RecordFields
from tests.support import cluster_access, eventually, kafka

pytestmark = pytest.mark.integration

WARMED_UP = 5_000
"""Records with proper names before them: by then the interpreter has optimized the calls."""
MALFORMED = 50


def encode(*names: bytes) -> memoryview:
    body = [
        record_codec.encode_record_body(
            RecordFields(b"k", b"v", tuple((name, b"x") for name in each))
        )
        for each in ((name,) for name in names)
    ]
    return memoryview(
        record_codec.encode_batch([BatchRecord(0, 1_000, each) for each in body], codec=0)
    )


def test_they_are_told_apart_and_no_call_ends_the_process(east, request):
    access = cluster_access.of(east)
    topic = kafka.create_topic(east.client_properties(), "malformed-header-names")
    with BlockingClient(
        access.to_connection_settings("raw"), clock=SystemClock(), random=random.Random(1)
    ) as client:
        for batch in (
            encode(*[b"name"] * WARMED_UP),
            encode(*[b"\xff\xfe", b"connect_runtime"] * MALFORMED),
        ):
            assert client.produce(topic, batch).error_code == 0
    consumer = librdkafka_clients.create_consumer(
        access,
        client_id="reads",
        settings={"group.id": "reads", "auto.offset.reset": "earliest"},
        reports=RecentConnectionErrors(),
    )
    request.addfinalizer(consumer.close)
    consumer.subscribe([topic])
    messages = []

    def has_read_all() -> bool:
        messages.extend(consumer.consume(1_000, 0.5))
        return len(messages) >= WARMED_UP + 2 * MALFORMED

    eventually.eventually(has_read_all, 60.0)
    for message in messages[: WARMED_UP // 2]:
        assert not internal_topic_writer.is_own_record(message)
    for message in messages[WARMED_UP // 2 : WARMED_UP]:
        assert librdkafka_clients.read_headers(message) == [("name", b"x")]
    last = messages[WARMED_UP:]
    assert [internal_topic_writer.is_own_record(message) for message in last[:MALFORMED]] == [
        False,
        True,
    ] * (MALFORMED // 2)
    assert [librdkafka_clients.read_headers(message) for message in last[MALFORMED:]] == [
        None,
        [("connect_runtime", b"x")],
    ] * (MALFORMED // 2)
