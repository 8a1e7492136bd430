"""Both judges on real logs: what they read is what was there, and what was planted is named."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mm2.formats import incident_records
from mm2.formats.incident_records import Incident, IncidentKind
from mm2.sandbox import replication_proof
from mm2.sandbox.log_comparison import DifferenceKind, TopicsComparison
from mm2.sandbox.replication_proof import NothingToCompareError
from mm2.sandbox.sandbox_clients import SandboxClients
from mm2.sandbox.traffic.edge_cases.topic_writers import ConfigAlterer
from mm2.topics import replication_policy
from tests.support import content, eventually, kafka
from tests.support.kafka import Outgoing, Properties, Record

pytestmark = pytest.mark.integration

KIND = DifferenceKind


def mirrored(west, name: str, records: list[Record], **changes: Any) -> None:
    """An ordinary copy of these; `changes` are fields of the first one."""
    outgoing = [
        Outgoing(key=each.key, value=each.value, headers=each.headers, timestamp=each.timestamp)
        for each in records
    ]
    outgoing[0] = dataclasses.replace(outgoing[0], **changes)
    kafka.create_topic(west.client_properties(), name)
    kafka.produce(west.client_properties(), name, outgoing)


@pytest.mark.parametrize("changed", [False, True])
def test_of_records_that_their_broker_dated_the_time_counts_alone(east, west, topic, changed):
    source, target = east.client_properties(), west.client_properties()
    name = kafka.create_topic(source, topic(), config={"message.timestamp.type": "LogAppendTime"})
    kafka.produce(source, name, content.some())
    mirrored(
        west, name, kafka.read_partition(source, name), **({"timestamp": 5} if changed else {})
    )
    strict = replication_proof.compare_topics(source, target, {name: name})
    assert strict.count_differences(KIND.ALTERED) == 20
    found = replication_proof.compare_topics(source, target, {name: name}, restamped={name})
    assert found.count_differences(KIND.ALTERED) == (1 if changed else 0)
    assert found.is_equal != changed
    (part,) = found.partitions
    assert [each.fields for each in part.differences] == ([("timestamp",)] if changed else [])


def test_what_the_cleaner_took_may_stand_on_the_mirror_and_nothing_else_may(
    own_cluster, east, topic
):
    west, name = east, "cleaned"
    source = own_cluster("east", settings={"log.cleaner.backoff.ms": "100"}).client_properties()
    target = west.client_properties()
    config = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "1"}
    kafka.create_topic(source, name, config=config)
    for number in range(4):
        stamp = 1_700_000_000_000 + 1_000 * number
        kafka.produce(
            source, name, content.some(5 + number, bytes_each=90 + 9 * number, timestamp=stamp)
        )
    before = replication_proof.take_snapshot(source, [name])
    ours = topic()
    mirrored(west, ours, kafka.read_partition(source, name))
    clean(source, name)

    def compared(mirror: str) -> TopicsComparison:
        return replication_proof.compare_topics_allowing_incidents(
            source, target, {name: mirror}, snapshot=before, incidents=[]
        )

    assert not replication_proof.compare_topics(source, target, {name: ours}).is_equal
    assert compared(ours).is_equal, compared(ours)
    wrong = topic()
    mirrored(west, wrong, kafka.read_partition(source, name), value=b"altered")
    assert (
        compared(wrong).count_differences(KIND.STALE)
        + compared(wrong).count_differences(KIND.ALTERED)
        > 0
    )
    assert compared(topic("none")).count_differences(KIND.STALE) == 8


def clean(properties: Properties, name: str) -> None:
    """Let the cleaner at what it was kept from, and wait until it is through."""
    changes = ConfigAlterer(SandboxClients(properties, alias="source"))
    changes.alter_topic_settings(name, {"min.cleanable.dirty.ratio": "0.01"})
    eventually.eventually(
        lambda: len(kafka.read_partition(properties, name)) < 20, 60.0, "the source is cleaned"
    )


def test_a_topic_that_is_not_there_is_not_equal_to_nothing(east, west):
    source, target = east.client_properties(), west.client_properties()
    with pytest.raises(NothingToCompareError, match="the source topic does not exist"):
        replication_proof.take_snapshot(source, ["never-made"])
    for topics in ({"never-made": "never-made"}, {}):
        with pytest.raises(NothingToCompareError):
            replication_proof.compare_topics_allowing_incidents(
                source, target, topics, snapshot={}, incidents=[]
            )


def test_incidents_are_read_as_they_stand(east, topic):
    properties, alias = east.client_properties(), topic()
    kafka.create_topic(properties, replication_policy.format_incidents_topic(alias))
    one = Incident(
        topic="orders",
        partition=1,
        id="x",
        kind=IncidentKind.NOT_PAIRED,
        flow="east->west",
        at_ms=5,
        detail="",
        target=(3, 9),
    )
    other = dataclasses.replace(one, id="y", target=None, source=(1, 2))
    action = dataclasses.replace(one, id="z", kind=IncidentKind.OPERATOR_ACTION, target=None)
    written = [incident_records.encode_incident(each) for each in (one, other, action, one)]
    gone = [(incident_records.encode_incident(other)[0], None)]
    kafka.produce(
        properties,
        replication_policy.format_incidents_topic(alias),
        [Outgoing(key=key, value=value) for key, value in [*written, *gone]],
    )
    assert replication_proof.read_incidents(properties, alias) == [one]
