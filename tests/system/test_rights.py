"""The rights in docs/guides/permissions.md are all that a flow needs, from its first start."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import content, eventually, granted, kafka, mirror, operations
from tests.support.granted import Rights
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.full, pytest.mark.timeout(600)]

USER = "mirror"
ON_SOURCE: Rights = {
    ("TOPIC", "orders"): ("DESCRIBE", "DESCRIBE_CONFIGS", "READ"),
    ("TOPIC", "mm2-offset-syncs.west.internal"): ("CREATE", "DESCRIBE", "READ", "WRITE"),
    ("GROUP", "*"): ("DESCRIBE",),
    ("BROKER", "kafka-cluster"): ("DESCRIBE",),
}
ON_TARGET: Rights = {
    ("TOPIC", "east."): (
        *("CREATE", "ALTER", "ALTER_CONFIGS", "DESCRIBE", "DESCRIBE_CONFIGS"),
        *("READ", "WRITE"),
    ),
    ("TOPIC", "mm2-"): ("CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE"),
    ("TOPIC", "heartbeats"): ("CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE"),
    ("GROUP", "east-mm2"): ("DESCRIBE", "READ"),
    ("TRANSACTIONAL_ID", "mm2-east->west-"): ("DESCRIBE", "WRITE"),
    ("BROKER", "kafka-cluster"): ("ALTER", "DESCRIBE", "DESCRIBE_CONFIGS"),
}
SOON_S = 90.0


def test_a_flow_is_fenced_grows_and_follows_settings_with_no_more_than_these(
    tmp_path: Any, own_cluster: Any
):
    east, west = (own_cluster(name, users=[USER]) for name in ("east", "west"))
    granted.allow(east, USER, ON_SOURCE)
    granted.allow(west, USER, ON_TARGET)
    source, target = east.client_properties(), west.client_properties()
    kafka.create_topic(source, "orders")
    kafka.produce(source, "orders", content.some())
    given = mirror.settings(
        east.client_properties(USER),
        west.client_properties(USER),
        topics="orders",
        spark={"engine": "inline"},
        refresh_topics_interval_seconds=1,
        sync_topic_configs_interval_seconds=1,
    )
    with Mirror(tmp_path, given) as run:
        run.await_records(20, topic="orders")
        operations.grow(source, "orders", 2)
        operations.configure(source, "orders", {"retention.ms": "77000000"})
        kafka.produce(source, "orders", content.some(partition=1))
        run.await_records(40, topic="orders")
        eventually.eventually(
            lambda: operations.settings(target, "east.orders")["retention.ms"] == "77000000",
            SOON_S,
        )
        assert run.figure("mm2_unfenced_partitions", topic="orders") == 0
        assert run.stopped() == set()
        assert "AUTHORIZATION" not in run.log
        assert "not authorized to read" not in run.log
        assert run.stop() == 143
    content.assert_mirrored(source, target, "orders")
    probed = mirror.mm2("probe", tmp_path / "run.yaml")
    assert probed.returncode == 0, probed.stdout + probed.stderr
