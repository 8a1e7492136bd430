"""A broker, served by a thread, whose metadata has a host name that is not UTF-8.

Every topic has one partition, led by the broker of that name.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from kio.schema.errors import ErrorCode

from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.network.tcp_and_tls_transport import Poller
from connect_runtime.protocol import request_framing
from connect_runtime.system.supervised_threads import ThreadGroup
from tests.support import scripted_broker
from tests.support.scripted_broker import Asked, ScriptedBroker

_WELL_FORMED = "neighbour.invalid"
_MALFORMED = b"\xff" * len(_WELL_FORMED)


@contextlib.contextmanager
def serve() -> Iterator[KafkaClusterAccess]:
    loop = Poller()
    broker = ScriptedBroker(loop)

    def tell_metadata(asked: Asked) -> None:
        m = asked.module
        hosts = ((1, "127.0.0.1", broker.port), (2, _WELL_FORMED, 9092))
        entity = asked.response(
            throttle_time=scripted_broker.NO_TIME,
            brokers=tuple(
                m.MetadataResponseBroker(node_id=node, host=host, port=port)
                for node, host, port in hosts
            ),
            cluster_id="scripted",
            controller_id=1,
            topics=tuple(
                m.MetadataResponseTopic(
                    error_code=ErrorCode.none,
                    name=str(each.name),
                    topic_id=None,
                    partitions=(
                        m.MetadataResponsePartition(
                            error_code=ErrorCode.none,
                            partition_index=0,
                            leader_id=2,
                            leader_epoch=1,
                        ),
                    ),
                )
                for each in asked.entity.topics or ()
            ),
            **({"error_code": 0} if asked.version >= 13 else {}),
        )
        body = bytes(request_framing.encode_request_body(entity))
        asked.answer(body.replace(_WELL_FORMED.encode(), _MALFORMED))

    broker.scripts["metadata"] = tell_metadata

    def run(stop: threading.Event) -> None:
        while not stop.is_set():
            loop.poll(0.02)

    threads = ThreadGroup(on_unexpected_end=lambda _: None)
    threads.start("serves", run)
    try:
        yield KafkaClusterAccess(name="hostile", bootstrap=(broker.address,))
    finally:
        assert threads.stop_all(5.0) == []
        broker.close()
        loop.close()
