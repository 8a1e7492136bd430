from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from mm2.preflight import mirror_topic_check
from mm2.preflight.check_report import CheckArea, CheckFinding, CheckSeverity
from mm2.preflight.mirror_topic_check import ObservedMirrors
from mm2.suggested_commands import ClusterCommands, OperatorCommands
from mm2.topics import mirror_topic_plan
from mm2.topics.flow_config import Flow
from mm2.topics.mirror_topic_plan import (
    ConfigEntry,
    ConfigEntrySource,
    ObservedTopic,
    TopicsSnapshot,
)

FLOW = Flow(source="east", target="west", replication_factor=1)
Weight, Word = CheckSeverity, CheckArea
OPERATOR = OperatorCommands(
    source=ClusterCommands(bootstrap="s:1"), target=ClusterCommands(bootstrap="t:1")
)


def topic(
    name: str, source: ConfigEntrySource = ConfigEntrySource.STATIC_BROKER, **configs: str
) -> ObservedTopic:
    """Settings with `_` for `.`, from the brokers unless said otherwise."""
    entries = {
        key.replace("_", "."): ConfigEntry(value=value, source=source)
        for key, value in {"cleanup_policy": "delete", **configs}.items()
    }
    return ObservedTopic(name=name, partitions=1, configs=entries)


def seen(
    *topics: ObservedTopic,
    there: Mapping[str, ObservedTopic] | None = None,
    new_topic: Mapping[str, str] | None = None,
    **changes: object,
) -> ObservedMirrors:
    source = {each.name: each for each in topics}
    planned = mirror_topic_plan.plan_mirror_topics(
        FLOW,
        TopicsSnapshot(topics=source),
        TopicsSnapshot(topics=there or {}, default_configs=new_topic),
        sync_configs=True,
        operator=OPERATOR,
    )
    found = ObservedMirrors(
        flow=FLOW,
        source=source,
        mirrors=there or {},
        planned=planned,
        leaderless={},
        undescribed={},
        refused={},
        name_conflicts={},
        reserved={},
        default_retention_ms=None,
    )
    return dataclasses.replace(found, **changes)  # type: ignore[arg-type]


def told(found: ObservedMirrors) -> list[CheckFinding]:
    return list(mirror_topic_check.check_mirror_topics(found, OPERATOR))


def test_sound_topics_have_no_findings():
    assert told(seen(topic("orders", retention_ms="604800000", max_message_bytes="1048588"))) == []


def test_a_flow_without_topics_is_told():
    (found,) = told(seen())
    assert (found.code, found.severity, found.area) == ("no-topics", Weight.WARNING, Word.TOPICS)
    assert "--operation Describe" in found.command


def test_what_the_plan_warns_of_is_a_warning_of_the_settings():
    orders = topic("orders", max_message_bytes="2000000")
    (found,) = told(seen(orders, new_topic={"max.message.bytes": "1000000"}))
    assert (found.code, found.severity, found.area) == (
        "mirror-max-message-bytes",
        Weight.WARNING,
        Word.SETTINGS,
    )
    assert found.text == (
        "orders -> east.orders: max.message.bytes is 1000000, but 2000000 on the source: the "
        "target rejects larger batches"
    )
    assert found.command.startswith("kafka-topics.sh --bootstrap-server t:1 --create")


def test_what_the_plan_stops_at_is_a_failure():
    (found,) = told(seen(topic("orders"), new_topic={"message.timestamp.type": "LogAppendTime"}))
    assert (found.code, found.severity) == ("mirror-message-timestamp-type", Weight.FAILED)


def test_many_alike_are_told_once():
    topics = [topic(f"t{number}", max_message_bytes="2000000") for number in range(5)]
    (found,) = told(seen(*topics, new_topic={"max.message.bytes": "1000000"}))
    assert found.text.startswith("t0 -> east.t0, t1 -> east.t1, t2 -> east.t2 and 2 more: ")
    assert "east.t0" in found.command


def test_topics_that_cannot_be_seen_and_mirrors_that_would_be_refused_are_told():
    found = told(seen(undescribed={"a": "gone"}, refused={"east.b": "INVALID_REPLICATION_FACTOR"}))
    assert [(each.code, each.severity) for each in found] == [
        ("topic-unseen", Weight.FAILED),
        ("mirror-refused", Weight.FAILED),
    ]
    assert "INVALID_REPLICATION_FACTOR" in found[1].text


def test_partitions_that_nobody_leads_are_told():
    here, there = told(seen(topic("a"), leaderless={"a": {4, 1}, "east.a": {0}}))
    assert (here.code, here.severity, here.area) == ("no-leader", Weight.FAILED, Word.TOPICS)
    assert here.text == "a: 2 of its partitions have no leader (1, 4)"
    assert here.command == "kafka-topics.sh --bootstrap-server s:1 --describe --topic a"
    assert there.command == "kafka-topics.sh --bootstrap-server t:1 --describe --topic east.a"


def test_topics_that_would_share_a_mirror_are_told():
    (found,) = told(seen(topic("a"), name_conflicts={"one": {"b", "c"}}))
    assert (found.code, found.severity) == ("mirrors-clash", Weight.FAILED)
    assert found.text == "topics b and c would have the same mirror topic one"


def test_a_topic_whose_mirror_would_be_an_internal_topic_is_a_warning():
    (found,) = told(seen(topic("a"), reserved={"checkpoints.internal": "its mirror would be x"}))
    assert (found.code, found.severity) == ("mirror-name-reserved", Weight.WARNING)
    assert found.text == ("topic checkpoints.internal must not be mirrored: its mirror would be x")


@pytest.mark.parametrize(
    ("ours", "brokers", "shorter"),
    [
        ("604800000", 604_800_000, False),
        ("604800000", -1, False),
        ("604800000", None, False),
        ("604800000", 86_400_000, True),
        ("-1", 604_800_000, True),
        ("-1", -1, False),
    ],
)
def test_a_mirror_that_forgets_sooner_than_its_source_is_told(ours, brokers, shorter):
    found = told(seen(topic("orders", retention_ms=ours), default_retention_ms=brokers))
    assert [each.code for each in found] == (["retention-shorter"] if shorter else [])


def test_a_retention_that_the_mirror_is_given_counts_not_that_of_brokers():
    own = topic("orders", ConfigEntrySource.TOPIC, retention_ms="-1")
    assert told(seen(own, default_retention_ms=604_800_000)) == []


def test_a_mirror_that_is_there_has_a_retention_of_its_own():
    there = {"east.orders": topic("east.orders", retention_ms="3600000")}
    found = told(
        seen(topic("orders", retention_ms="7200000"), there=there, default_retention_ms=-1)
    )
    assert [each.code for each in found] == ["retention-shorter"]
    assert "7200000 on the source, 3600000 on the mirror" in found[0].text


def test_what_is_only_compacted_has_no_retention():
    compacted = topic("orders", retention_ms="-1", cleanup_policy="compact")
    assert told(seen(compacted, default_retention_ms=604_800_000)) == []


def test_a_source_that_forgets_within_the_hour_is_worth_knowing():
    (found,) = told(seen(topic("orders", retention_ms="600000")))
    assert (found.code, found.severity) == ("retention-short", Weight.NOTE)


def test_a_buffer_that_holds_no_batch_is_told():
    largest = str(FLOW.buffer_bytes + 1)
    (found,) = told(seen(topic("orders", max_message_bytes=largest)))
    assert (found.code, found.severity) == ("buffer-small", Weight.WARNING)


def test_what_is_refused_for_one_reason_is_told_once():
    names = ("east.b", "east.c")
    refused = {name: f"creating topic {name} on west: POLICY_VIOLATION" for name in names}
    (found,) = (each for each in told(seen(refused=refused)) if each.code == "mirror-refused")
    assert found.text == (
        "east.b, east.c: the cluster refuses to create the mirror topic: "
        "creating it on west: POLICY_VIOLATION"
    )
