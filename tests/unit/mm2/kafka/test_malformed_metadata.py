"""Metadata that is not UTF-8 is an error of one request; librdkafka would end the process."""

from __future__ import annotations

import pytest

from connect_runtime.base.errors import RetriableError
from connect_runtime.protocol.topic_requests import ConfigChange, NewTopic
from connect_runtime.system.system_clock import SystemClock
from mm2.kafka.topic_and_config_admin import KafkaAdmin
from tests.support import malformed_broker

CLOCK = SystemClock()
TOPIC = NewTopic(name="t", partitions=1, replication_factor=1)


@pytest.mark.parametrize(
    "read",
    [
        lambda admin: admin.read_cluster_id(0.5),
        lambda admin: admin.list_topics(0.5),
        lambda admin: admin.describe_topics(["t"], 0.5),
        lambda admin: admin.read_broker_configs(["k"], 0.5),
        lambda admin: admin.read_topic_configs(["t"], 3.0),
        lambda admin: admin.create_topics([TOPIC], 0.5),
        lambda admin: admin.add_partitions({"t": 2}, 0.5),
        lambda admin: admin.alter_configs({"t": ConfigChange(set={"a": "b"})}, 0.5),
    ],
    ids=[
        "cluster id",
        "topics",
        "descriptions",
        "broker configs",
        "topic configs",
        "creation",
        "partitions",
        "changes",
    ],
)
def test_malformed_metadata_is_a_transient_error(read):
    with malformed_broker.serve() as access:
        admin = KafkaAdmin(access, client_id="c", clock=CLOCK)
        with pytest.raises(RetriableError, match="hostile"):
            read(admin)
        admin.close()
