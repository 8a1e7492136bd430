"""The logs are named as Java's clients are, and leaders fence where sources are exactly once."""

from __future__ import annotations

import pytest

from connect_runtime.config.worker_config import ExactlyOnceSourceMode
from connect_runtime.kafka import internal_topic_logs
from connect_runtime.kafka.internal_topic_writer import LogRetryPolicy
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.storage import internal_topic_settings
from connect_runtime.system.system_clock import SystemClock

ExactlyOnce = ExactlyOnceSourceMode
TOPICS = internal_topic_settings.read_required_topics(
    {
        "config.storage.topic": "c",
        "offset.storage.topic": "o",
        "status.storage.topic": "s",
    }
)


def make(**options):
    return internal_topic_logs.create_internal_topic_logs(
        KafkaClusterAccess(bootstrap=("127.0.0.1:1",)),
        TOPICS,
        group_id="g",
        clock=SystemClock(),
        **options,
    )


def test_three_topics_three_clients():
    logs = make()
    assert (logs.config.name, logs.offset.name, logs.status.name) == ("c", "o", "s")
    assert [each._client_id for each in (logs.config, logs.offset, logs.status)] == [
        "g-configs",
        "g-offsets",
        "g-statuses",
    ]
    assert make(client_id="w1").config._client_id == "g-w1-configs"


def test_only_statuses_are_tried_once():
    logs = make()
    once = LogRetryPolicy.TRY_ONCE
    tried_once = [
        each._manner.retry_policy is once for each in (logs.config, logs.offset, logs.status)
    ]
    assert tried_once == [False, False, True]
    assert once.settings["retries"] == 0


@pytest.mark.parametrize(
    ("support", "fences", "committed"),
    [
        ("disabled", False, [False, False, False]),
        ("preparing", True, [False, False, False]),
        ("enabled", True, [True, True, False]),
    ],
)
def test_exactly_once(support, fences, committed):
    logs = make(exactly_once=ExactlyOnce(support))
    assert (logs.fenced_writer is not None) is fences
    every = (logs.config, logs.offset, logs.status)
    assert [each._manner.committed_only for each in every] == committed
