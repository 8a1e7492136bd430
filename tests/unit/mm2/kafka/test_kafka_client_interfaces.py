from __future__ import annotations

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.kafka.client_errors import NotAuthorizedError
from connect_runtime.system.system_clock import SystemClock
from mm2.kafka import kafka_client_interfaces
from mm2.kafka.kafka_client_interfaces import PerTopicResult
from tests.fakes.admin import FakeAdmin, FakeCluster


def observe(cluster, *names):
    target = FakeAdmin(cluster)
    return kafka_client_interfaces.describe_topics_with_configs(
        target, names, 1.0, clock=SystemClock()
    )


def test_settings_that_may_not_be_read_are_none():
    cluster = FakeCluster()
    cluster.create("a", partitions=2)
    refused = NotAuthorizedError("no DESCRIBE_CONFIGS")
    cluster.failures["topic_configs", "a"] = refused
    topic = observe(cluster, "a").succeeded["a"]
    assert topic.configs is None
    assert topic.partitions == 2


def test_other_failures_of_either_call_are_the_topics():
    cluster = FakeCluster()
    for name in "abc":
        cluster.create(name)
    cluster.failures["describe_topics", "a"] = RetriableError("describe")
    cluster.failures["topic_configs", "b"] = RetriableError("configs")
    seen = observe(cluster, "a", "b", "c")
    assert set(seen.succeeded) == {"c"}
    assert {name: str(error) for name, error in seen.failed.items()} == {
        "a": "describe",
        "b": "configs",
    }


def test_the_first_failure_is_the_first_by_name():
    failed = {name: FatalError(name) for name in "ba"}
    assert str(PerTopicResult(succeeded={}, failed=failed).get_first_failure()) == "a"
    assert PerTopicResult(succeeded={}, failed={}).get_first_failure() is None
