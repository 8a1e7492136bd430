from __future__ import annotations

from connect_runtime.base import errors
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.system import clock
from mm2.cluster import admin as port
from tests.fakes import admin as fake


def observe(cluster, *names):
    target = fake.FakeAdmin(cluster)
    return port.observe_topics(target, names, 1.0, clock=clock.SystemClock())


def test_settings_that_may_not_be_read_are_none():
    cluster = fake.FakeCluster()
    cluster.create("a", partitions=2)
    refused = kafka_errors.NotAuthorizedError("no DESCRIBE_CONFIGS")
    cluster.failures["topic_configs", "a"] = refused
    topic = observe(cluster, "a").done["a"]
    assert topic.configs is None
    assert topic.partitions == 2


def test_other_failures_of_either_call_are_the_topics():
    cluster = fake.FakeCluster()
    for name in "abc":
        cluster.create(name)
    cluster.failures["describe_topics", "a"] = errors.RetriableError("describe")
    cluster.failures["topic_configs", "b"] = errors.RetriableError("configs")
    seen = observe(cluster, "a", "b", "c")
    assert set(seen.done) == {"c"}
    assert {name: str(error) for name, error in seen.failed.items()} == {
        "a": "describe",
        "b": "configs",
    }


def test_the_first_failure_is_the_first_by_name():
    failed = {name: errors.FatalError(name) for name in "ba"}
    assert str(port.PerTopic(done={}, failed=failed).first_failure()) == "a"
    assert port.PerTopic(done={}, failed={}).first_failure() is None
