"""Odd topics on real brokers: `write` looks into the logs itself, and says what is not there."""

from __future__ import annotations

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.sandbox.compared_records import RawRecord
from mm2.sandbox.partition_reader import ConsumerLogReader
from mm2.sandbox.sandbox_errors import SandboxError
from mm2.sandbox.traffic.edge_cases import edge_case_topics
from mm2.sandbox.traffic.edge_cases.edge_case_topics import EdgeCaseTopic
from mm2.sandbox.traffic.edge_cases.record_features import RecordFeature
from tests.support.kafka import Properties

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

NEWEST = "4.3.1"


def read(properties: Properties, topic: str) -> list[RawRecord]:
    """All that readers of committed data see, partition by partition."""
    with ConsumerLogReader(properties, alias="source") as reader:
        return [
            content
            for number in range(reader.count_partitions(topic))
            for chunk in reader.iterate_record_chunks(TopicPartition(topic, number))
            for content in chunk.contents
        ]


def contents(properties: Properties, topic: str) -> list[object]:
    return [(key, value, headers) for key, value, headers, _ in read(properties, topic)]


def test_content_repeats_by_its_seed(east, topic):
    properties = east.client_properties()
    found = []
    for label, seed in (("one", 1), ("same", 1), ("other", 2)):
        prefix = topic(label) + "-"
        only = ("single", "by-hand")
        written = edge_case_topics.write_topics(
            properties, kafka_version=NEWEST, seed=seed, prefix=prefix, only=only
        )
        assert [each.name for each in written] == [prefix + name for name in only]
        logs = [contents(properties, each.name) for each in written]
        assert [len(log) for log in logs] == [each.records for each in written]
        found.append(logs)
    one, same, other = found
    assert one == same
    assert all(left != right for left, right in zip(one, other, strict=True))


def test_every_timestamp_is_there(east, topic):
    prefix = topic() + "-"
    properties = east.client_properties()
    expectations = {
        "past": {-1, 1, 978_307_200_000},
        "future": {253_402_300_799_000},
        "by-hand": {-1, 0},
    }
    edge_case_topics.write_topics(
        properties, kafka_version=NEWEST, prefix=prefix, only=expectations
    )
    for name, expected in expectations.items():
        assert expected < {stamp for *_, (_, stamp) in read(properties, prefix + name)}


def test_an_oddity_that_does_not_show_is_an_error(east, topic, monkeypatch):
    """A cluster of today does not write formats of before 3.0, whatever a topic asks for."""
    prefix = topic() + "-"
    with pytest.raises(SandboxError, match="unknown edge-case topics"):
        edge_case_topics.write_topics(
            east.client_properties(), kafka_version=NEWEST, prefix=prefix, only=("v0",)
        )
    today = {each.name: each for each in edge_case_topics.CURRENT_TOPICS}
    planted = EdgeCaseTopic(
        name="planted",
        description="claims what it does not hold",
        write=today["codecs"].write,
        features=frozenset({RecordFeature.V0}),
    )
    monkeypatch.setattr(edge_case_topics, "CURRENT_TOPICS", (planted,))
    with pytest.raises(SandboxError, match=r"lacks .*format v0"):
        edge_case_topics.write_topics(east.client_properties(), kafka_version=NEWEST, prefix=prefix)


@pytest.mark.full
@pytest.mark.parametrize("version", ["2.8.2", "3.9.1", NEWEST])
def test_every_oddity_of_a_release_shows(own_cluster, version):
    properties = own_cluster("odd", kafka_version=version).client_properties()
    written = edge_case_topics.write_topics(properties, kafka_version=version)
    major, minor, _ = version.split(".")
    expected = edge_case_topics.list_topics((int(major), int(minor)))
    assert {each.name for each in written} == {f"odd-{one.name}" for one in expected}
