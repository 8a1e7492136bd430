from __future__ import annotations

import pytest

from connect_runtime.api.errors import ConfigError
from connect_runtime.config import worker_config_keys

NEEDED = {
    "bootstrap.servers": "a:1",
    "key.converter": "K",
    "value.converter": "V",
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
}


def test_defaults_are_those_of_java():
    found = worker_config_keys.DISTRIBUTED.parse(NEEDED)
    expected = {
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 3_000,
        "rebalance.timeout.ms": 60_000,
        "connect.protocol": "sessioned",
        "offset.storage.partitions": 25,
        "status.storage.partitions": 5,
        "config.storage.replication.factor": 3,
        "offset.flush.interval.ms": 60_000,
        "offset.flush.timeout.ms": 5_000,
        "task.shutdown.graceful.timeout.ms": 5_000,
        "scheduled.rebalance.max.delay.ms": 300_000,
        "worker.unsync.backoff.ms": 300_000,
        "inter.worker.key.ttl.ms": 3_600_000,
        "request.timeout.ms": 40_000,
    }
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("missing", sorted(NEEDED))
def test_what_has_no_default_must_be_given(missing):
    given = {name: value for name, value in NEEDED.items() if name != missing}
    with pytest.raises(ConfigError, match=missing):
        worker_config_keys.DISTRIBUTED.parse(given)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("config.storage.replication.factor", "0"),
        ("offset.storage.partitions", "-2"),
        ("connect.protocol", "lazy"),
        ("scheduled.rebalance.max.delay.ms", "-1"),
        ("bootstrap.servers", ""),
        ("inter.worker.verification.algorithms", ""),
        ("receive.buffer.bytes", "-2"),
        ("exactly.once.source.support", "yes"),
    ],
)
def test_what_cannot_be_meant_is_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        worker_config_keys.DISTRIBUTED.parse({**NEEDED, name: value})


@pytest.mark.parametrize("value", ["-1", "1"])
def test_the_brokers_default_may_be_asked_for(value):
    worker_config_keys.DISTRIBUTED.parse({**NEEDED, "status.storage.replication.factor": value})


def test_a_worker_alone_needs_a_file_and_no_topics():
    alone = {name: NEEDED[name] for name in ("bootstrap.servers", "key.converter")}
    with pytest.raises(ConfigError, match=r"offset\.storage\.file"):
        worker_config_keys.STANDALONE.parse({**alone, "value.converter": "V"})
    assert "group.id" not in worker_config_keys.STANDALONE.keys
