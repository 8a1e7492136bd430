from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.connectors import mirror_topic_writer
from mm2.topics import config_property_filter, mirror_topic_plan, topic_filters
from mm2.topics.flow_config import Flow
from mm2.topics.mirror_topic_plan import (
    ConfigEntry,
    ConfigEntrySource,
    MirrorFindingSeverity,
    MirrorTopicFinding,
    MirrorTopicPlan,
    ObservedTopic,
    TopicsSnapshot,
)
from mm2.topics.replication_policy import IdentityReplicationPolicy

Source = ConfigEntrySource
AFTER, BEFORE, DIFFERENCE = mirror_topic_plan.TIMESTAMP_BOUND_CONFIGS
WIDE = {
    AFTER: mirror_topic_plan.UNLIMITED_TIMESTAMP_MS,
    BEFORE: mirror_topic_plan.UNLIMITED_TIMESTAMP_MS,
}
FLOW = Flow(source="east", target="west")
SEVERITY = MirrorFindingSeverity


def entry(value: str, source: Source = Source.TOPIC, **flags: bool) -> ConfigEntry:
    return ConfigEntry(value=value, source=source, **flags)


def topic(
    name: str, partitions: int = 1, configs: Mapping[str, ConfigEntry] | None = None
) -> ObservedTopic:
    return ObservedTopic(name=name, partitions=partitions, configs=configs or {})


def cluster(*topics: ObservedTopic, new_topic: Mapping[str, str] | None = None) -> TopicsSnapshot:
    return TopicsSnapshot(topics={item.name: item for item in topics}, default_configs=new_topic)


def mirror(partitions: int = 1, **configs: ConfigEntry) -> ObservedTopic:
    """`east.orders` as we would have created it; setting names with _ for dots."""
    named = {name.replace("_", "."): value for name, value in configs.items()}
    wide = {name: entry(value) for name, value in WIDE.items()}
    return topic("east.orders", partitions, {**wide, **named})


def make(
    source: TopicsSnapshot,
    target: TopicsSnapshot,
    flow: Flow = FLOW,
    *,
    sync_configs: bool = True,
) -> MirrorTopicPlan:
    return mirror_topic_plan.plan_mirror_topics(flow, source, target, sync_configs=sync_configs)


def is_empty(made: MirrorTopicPlan) -> bool:
    """Is there nothing to carry out (findings aside)?"""
    return not (made.create or made.add_partitions or made.alter)


def test_a_missing_topic_is_created_with_the_sources_partitions_and_wide_bounds():
    made = make(cluster(topic("orders", 3)), cluster())
    (create,) = made.create
    assert (create.topic, create.name, create.partitions) == ("orders", "east.orders", 3)
    assert create.replication_factor == 2
    assert create.configs == WIDE
    assert not made.findings


def test_replication_factor_minus_one_is_left_to_the_brokers():
    flow = dataclasses.replace(FLOW, replication_factor=-1)
    (create,) = make(cluster(topic("orders")), cluster(), flow).create
    assert create.replication_factor is None


def test_only_what_the_flow_takes_is_planned_in_order_of_name():
    flow = dataclasses.replace(FLOW, topics=topic_filters.compile_topic_filter(["orders.*"]))
    names = ["orders-b", "orders-a", "other", "__offsets", "mm2-orders.internal", "west.orders"]
    made = make(cluster(*(topic(name) for name in names)), cluster(), flow)
    assert [create.topic for create in made.create] == ["orders-a", "orders-b"]


def test_identity_keeps_the_name():
    flow = dataclasses.replace(FLOW, policy=IdentityReplicationPolicy(source_alias="east"))
    (create,) = make(cluster(topic("orders")), cluster(), flow).create
    assert create.name == "orders"


EVERY_KIND = {
    "retention.ms": entry("1"),
    "segment.ms": entry("2", Source.DYNAMIC_BROKER),
    "segment.bytes": entry("3", Source.DYNAMIC_DEFAULT_BROKER),
    "max.message.bytes": entry("4", Source.STATIC_BROKER),
    "flush.ms": entry("5", Source.DEFAULT),
    "secret.setting": entry("6", sensitive=True),
    "fixed.setting": entry("7", read_only=True),
    "min.insync.replicas": entry("8"),
    AFTER: entry("9"),
    BEFORE: entry("10"),
    DIFFERENCE: entry("11"),
    "unknown.setting": entry("12", Source.UNKNOWN),
}


def test_create_time_settings_follow_the_table_of_mirrormaker_2():
    (create,) = make(cluster(topic("orders", 1, EVERY_KIND)), cluster()).create
    assert create.configs == {
        **WIDE,
        "retention.ms": "1",
        "segment.bytes": "3",
        "segment.ms": "2",
        "unknown.setting": "12",
    }
    assert list(create.configs) == sorted(create.configs)


def test_defaults_of_the_source_are_written_when_asked_for():
    flow = dataclasses.replace(
        FLOW,
        config_filter=config_property_filter.compile_config_property_filter(source_defaults=True),
    )
    source = cluster(topic("orders", 1, EVERY_KIND))
    (create,) = make(source, cluster(), flow).create
    assert create.configs["flush.ms"] == "5"
    (alter,) = make(source, cluster(mirror()), flow).alter
    assert alter.set["flush.ms"] == "5"


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({AFTER: "1", BEFORE: "2", DIFFERENCE: "3"}, {AFTER, BEFORE, DIFFERENCE}),
        ({AFTER: "1", BEFORE: "2"}, {AFTER, BEFORE}),
        ({DIFFERENCE: "3"}, {DIFFERENCE}),
        (None, {AFTER, BEFORE}),
    ],
)
def test_bounds_are_set_that_the_brokers_know(known, expected):
    (create,) = make(cluster(topic("orders")), cluster(new_topic=known)).create
    assert create.configs == dict.fromkeys(expected, mirror_topic_plan.UNLIMITED_TIMESTAMP_MS)


def test_growing_follows_the_source():
    made = make(cluster(topic("orders", 5)), cluster(mirror(3)))
    (grow,) = made.add_partitions
    assert (grow.name, grow.partitions_now, grow.partitions) == ("east.orders", 3, 5)
    assert str(grow) == "add partitions to east.orders: from 3 to 5"
    assert not made.create


@pytest.mark.parametrize("value", ["x", "", "9" * 5000, "٣"])
@pytest.mark.parametrize("exists", [True, False])
def test_a_message_size_that_is_no_number_is_told(value, exists):
    source = cluster(topic("orders", 1, {"max.message.bytes": entry(value)}))
    present = [mirror(max_message_bytes=entry("1048588"))] if exists else []
    made = make(source, cluster(*present, new_topic={"max.message.bytes": "1048588"}))
    (finding,) = made.findings
    assert (finding.setting, finding.severity) == ("max.message.bytes", SEVERITY.WARN)
    assert "on east. This value is not a whole number" in finding.problem
    assert len(finding.problem) < 200


def test_a_message_size_of_the_target_that_is_no_number_is_told():
    source = cluster(topic("orders", 1, {"max.message.bytes": entry("1048588")}))
    target = cluster(mirror(max_message_bytes=entry("x")))
    (finding,) = make(
        source, target, Flow(source="east", target="west"), sync_configs=False
    ).findings
    assert "is 'x' on west. This value is not a whole number" in finding.problem


@pytest.mark.parametrize("target", [cluster(), cluster(mirror(3))], ids=["missing", "present"])
def test_a_topic_of_too_many_partitions_is_neither_created_nor_extended(target):
    made = make(cluster(topic("orders", 20_001)), target)
    (finding,) = made.findings
    assert (finding.setting, finding.severity) == ("partitions", SEVERITY.STOP)
    assert "has 20,001 partitions, but a mirrored topic may have at most 20,000" in finding.problem
    assert made.list_stopped_topics() == {"orders"}
    assert made.add_partitions == ()
    assert mirror_topic_writer.select_topics_to_create(made) == []
    assert make(cluster(topic("orders", 20_000)), target).findings == ()


def test_partitions_that_only_the_target_has_are_told():
    made = make(cluster(topic("orders", 2)), cluster(mirror(3)))
    assert is_empty(made)
    (finding,) = made.findings
    assert (finding.setting, finding.severity) == ("partitions", SEVERITY.WARN)


def test_existing_topics_follow_overrides_and_lose_those_that_the_source_lost():
    source = topic(
        "orders",
        1,
        {
            "retention.ms": entry("1"),
            "segment.ms": entry("2"),
            "flush.ms": entry("3", Source.DEFAULT),
            "index.interval.bytes": entry("4", Source.DEFAULT),
            "min.insync.replicas": entry("2"),
        },
    )
    target = mirror(
        retention_ms=entry("7"),
        segment_ms=entry("2"),
        flush_ms=entry("9"),
        index_interval_bytes=entry("5", Source.STATIC_BROKER),
        min_insync_replicas=entry("1"),
    )
    (alter,) = make(cluster(source), cluster(target)).alter
    assert alter.set == {"retention.ms": "1"}
    assert alter.delete == ("flush.ms",)
    assert str(alter) == "alter east.orders: retention.ms=1, remove flush.ms"


def test_an_equal_value_that_is_no_override_yet_becomes_one():
    source = topic("orders", 1, {"segment.ms": entry("2", Source.DYNAMIC_BROKER)})
    target = mirror(segment_ms=entry("2", Source.DEFAULT))
    (alter,) = make(cluster(source), cluster(target)).alter
    assert alter.set == {"segment.ms": "2"}


def test_a_stale_override_survives_a_static_broker_setting_of_the_source():
    source = topic("orders", 1, {"segment.ms": entry("2", Source.STATIC_BROKER)})
    assert is_empty(make(cluster(source), cluster(mirror(segment_ms=entry("9")))))


def test_without_sync_existing_topics_are_left_alone():
    source = topic("orders", 1, {"retention.ms": entry("1")})
    target = topic("east.orders", 1, {AFTER: entry("3600000", Source.DEFAULT)})
    assert is_empty(make(cluster(source), cluster(target), sync_configs=False))


@pytest.mark.parametrize("interval_s", [600.0, None])
def test_what_would_stop_a_topic_until_the_next_sync_is_not_put_off(interval_s):
    """The source is no longer compacted, and looks come more often than settings follow."""
    source = topic("orders", 1, {"cleanup.policy": entry("delete"), "retention.ms": entry("1")})
    target = mirror(cleanup_policy=entry("compact"))
    flow = dataclasses.replace(FLOW, sync_topic_configs_interval_s=interval_s)
    made = make(cluster(source), cluster(target), flow, sync_configs=False)
    if interval_s is None:
        assert made.alter == ()
        assert made.list_stopped_topics() == {"orders"}
    else:
        (alter,) = made.alter
        assert alter.set == {"cleanup.policy": "delete", "retention.ms": "1"}
        assert made.findings == ()


def test_bounds_of_existing_topics_are_widened_unless_set_on_the_topic():
    target = topic(
        "east.orders", 1, {AFTER: entry("3600000", Source.DEFAULT), BEFORE: entry("5000")}
    )
    made = make(cluster(topic("orders")), cluster(target))
    (alter,) = made.alter
    assert alter.set == {AFTER: mirror_topic_plan.UNLIMITED_TIMESTAMP_MS}
    (finding,) = made.findings
    assert (finding.setting, finding.severity) == (BEFORE, SEVERITY.WARN)


def one_finding(
    source: Mapping[str, str], target: Mapping[str, str], flow: Flow = FLOW
) -> MirrorTopicFinding | None:
    """Both with broker-wide values, so that nothing is synced."""
    made = make(
        cluster(topic("orders", 1, {k: entry(v, Source.STATIC_BROKER) for k, v in source.items()})),
        cluster(mirror(1, **{k: entry(v, Source.STATIC_BROKER) for k, v in target.items()})),
        flow,
    )
    assert is_empty(made)
    assert len(made.findings) <= 1
    return made.findings[0] if made.findings else None


@pytest.mark.parametrize(
    ("setting", "source", "target", "severity"),
    [
        ("message.timestamp.type", "LogAppendTime", "LogAppendTime", SEVERITY.STOP),
        ("message.timestamp.type", "CreateTime", "LogAppendTime", SEVERITY.STOP),
        ("message.timestamp.type", "LogAppendTime", "CreateTime", None),
        ("compression.type", "producer", "gzip", SEVERITY.WARN),
        ("compression.type", "lz4", "gzip", SEVERITY.WARN),
        ("compression.type", "gzip", "gzip", None),
        ("compression.type", "gzip", "producer", None),
        ("cleanup.policy", "delete", "compact", SEVERITY.STOP),
        ("cleanup.policy", "delete", "compact,delete", SEVERITY.STOP),
        ("cleanup.policy", "compact", "delete", SEVERITY.WARN),
        ("cleanup.policy", "compact", "delete,compact", SEVERITY.WARN),
        ("cleanup.policy", "compact,delete", "compact", SEVERITY.WARN),
        ("cleanup.policy", "compact,delete", "delete, compact", None),
        ("max.message.bytes", "2000000", "1000000", SEVERITY.WARN),
        ("max.message.bytes", "1000000", "2000000", None),
        ("max.message.bytes", "9", "10", None),
    ],
)
def test_settings_that_stand_in_the_way(setting, source, target, severity):
    finding = one_finding({setting: source}, {setting: target})
    assert (finding and finding.severity) == severity
    if finding:
        assert finding.setting == setting
        assert finding.topic == "orders"
        assert f"set {setting}=" in finding.remedy
        assert "east.orders of west" in finding.remedy
        assert finding.command.startswith("kafka-configs.sh --bootstrap-server HOST:PORT --alter")
        assert f"{setting}=" in finding.command


def test_findings_are_about_the_target_as_it_will_be():
    source = topic("orders", 1, {"compression.type": entry("lz4")})
    made = make(cluster(source), cluster(mirror(compression_type=entry("gzip"))))
    assert made.alter[0].set == {"compression.type": "lz4"}
    assert not made.findings


def test_a_removed_override_leaves_the_brokers_setting():
    source = topic("orders", 1, {"compression.type": entry("producer", Source.DEFAULT)})
    target = mirror(compression_type=entry("producer"))
    brokers = {"compression.type": "zstd", AFTER: "1", BEFORE: "1"}
    made = make(cluster(source), cluster(target, new_topic=brokers))
    assert made.alter[0].delete == ("compression.type",)
    assert [each.severity for each in made.findings] == [MirrorFindingSeverity.WARN]


def test_what_the_brokers_give_a_new_topic_is_judged_before_it_is_made():
    brokers = {"message.timestamp.type": "LogAppendTime", AFTER: "1", BEFORE: "1"}
    made = make(cluster(topic("orders")), cluster(new_topic=brokers))
    assert len(made.create) == 1
    assert made.list_stopped_topics() == {"orders"}
    assert "stop orders -> east.orders: message.timestamp.type is LogAppendTime" in str(made)
    assert made.findings[0].command == (
        "kafka-topics.sh --bootstrap-server HOST:PORT --create --topic east.orders --partitions 1 "
        f"--replication-factor 2 --config {AFTER}={mirror_topic_plan.UNLIMITED_TIMESTAMP_MS} "
        "--config "
        f"{BEFORE}={mirror_topic_plan.UNLIMITED_TIMESTAMP_MS} --config "
        "message.timestamp.type=CreateTime"
    )


def test_settings_that_may_not_be_read_are_told_and_left_alone():
    blind = ObservedTopic(name="orders", partitions=1, configs=None)
    made = make(cluster(blind), cluster())
    assert made.create[0].configs == WIDE
    assert [item.severity for item in made.findings] == [SEVERITY.WARN]
    blind_target = ObservedTopic(name="east.orders", partitions=1, configs=None)
    made = make(cluster(topic("orders", 1, EVERY_KIND)), cluster(blind_target))
    assert is_empty(made)
    assert "not authorized to read" in made.findings[0].problem


def test_a_name_that_kafka_would_refuse_stops_the_topic():
    name = "x" * 246
    made = make(cluster(topic(name)), cluster())
    assert made.list_stopped_topics() == {name}


def test_a_plan_prints_what_it_does():
    source = cluster(topic("a", 2, {"retention.ms": entry("1")}), topic("orders", 2))
    text = str(make(source, cluster(mirror(1))))
    assert text.splitlines() == [
        "create east.a: 2 partitions, replication factor 2, "
        f"{AFTER}={mirror_topic_plan.UNLIMITED_TIMESTAMP_MS}, "
        f"{BEFORE}={mirror_topic_plan.UNLIMITED_TIMESTAMP_MS}, retention.ms=1",
        "add partitions to east.orders: from 1 to 2",
    ]
    assert str(MirrorTopicPlan()) == ""


NAMES = st.sampled_from(
    ["retention.ms", "segment.ms", "min.insync.replicas", "flush.ms", "index.interval.bytes", AFTER]
)
ENTRIES = st.builds(
    ConfigEntry,
    value=st.sampled_from(["1", "2", mirror_topic_plan.UNLIMITED_TIMESTAMP_MS]),
    source=st.sampled_from(list(Source)),
    read_only=st.booleans(),
    sensitive=st.booleans(),
)


def topics(names: list[str]) -> st.SearchStrategy[TopicsSnapshot]:
    one = st.builds(
        ObservedTopic,
        name=st.sampled_from(names),
        partitions=st.integers(1, 4),
        configs=st.none() | st.dictionaries(NAMES, ENTRIES),
    )
    return st.lists(one).map(lambda found: cluster(*found))


def carry_out(made: MirrorTopicPlan, target: TopicsSnapshot) -> TopicsSnapshot:
    """What a cluster does with a plan."""
    after = dict(target.topics)
    for create in made.create:
        configs = {name: entry(value) for name, value in create.configs.items()}
        after[create.name] = topic(create.name, create.partitions, configs)
    for grow in made.add_partitions:
        assert after[grow.name].partitions == grow.partitions_now
        after[grow.name] = dataclasses.replace(after[grow.name], partitions=grow.partitions)
    for alter in made.alter:
        configs = dict(after[alter.name].configs or {})
        configs.update({name: entry(value) for name, value in alter.set.items()})
        for name in alter.delete:
            configs[name] = entry("1", Source.DEFAULT)
        after[alter.name] = dataclasses.replace(after[alter.name], configs=configs)
    return dataclasses.replace(target, topics=after)


@given(topics(["a", "b", "c"]), topics(["east.a", "east.b", "x"]), st.booleans(), st.booleans())
def test_planning_again_yields_nothing(source, target, sync, source_defaults):
    flow = dataclasses.replace(
        FLOW,
        config_filter=config_property_filter.compile_config_property_filter(
            source_defaults=source_defaults
        ),
    )
    made = make(source, target, flow, sync_configs=sync)
    after = carry_out(made, target)
    again = make(source, after, flow, sync_configs=sync)
    assert is_empty(again)
    assert all(
        after.topics[f"east.{name}"].partitions >= source.topics[name].partitions
        for name in source.topics
    )


DOWN = "message.downconversion.enable"
FORMAT = "message.format.version"


def test_a_setting_that_the_targets_release_does_not_have_is_left_out_and_told():
    """2.8 to 4.x: brokers refuse to create a topic with a setting that they do not know."""
    overrides = {DOWN: entry("true"), "retention.ms": entry("1")}
    source = cluster(topic("orders", 1, overrides))
    there = dataclasses.replace(cluster(), config_names={"retention.ms", AFTER, BEFORE})

    made = make(source, there)
    (again,) = make(source, dataclasses.replace(there, topics=cluster(mirror()).topics)).alter

    assert made.create[0].configs == {**WIDE, "retention.ms": "1"}
    (finding,) = made.findings
    assert (finding.setting, finding.severity) == (DOWN, MirrorFindingSeverity.WARN)
    assert "message.downconversion.enable=true is not synced" in str(finding)
    assert DOWN not in again.set


def test_the_message_format_of_the_source_is_never_taken_over():
    """Formats before v2 know no transaction markers, so nothing could be fenced there."""
    source = cluster(topic("orders", 1, {FORMAT: entry("0.10.2")}))
    made = make(source, dataclasses.replace(cluster(), config_names={FORMAT, AFTER, BEFORE}))
    assert (made.create[0].configs, list(made.findings)) == (WIDE, [])


def test_bounds_are_those_that_the_settings_of_any_topic_there_show():
    there = dataclasses.replace(cluster(), config_names={"retention.ms", DIFFERENCE})
    (create,) = make(cluster(topic("orders")), there).create
    assert create.configs == {DIFFERENCE: mirror_topic_plan.UNLIMITED_TIMESTAMP_MS}


def test_a_setting_has_a_value_wherever_it_comes_from():
    topic = ObservedTopic(
        name="orders",
        partitions=3,
        configs={
            "retention.ms": ConfigEntry(value="1"),
            "segment.ms": ConfigEntry(value="2", source=ConfigEntrySource.DEFAULT),
        },
    )
    assert topic.get_config("retention.ms") == "1"
    assert topic.get_config("segment.ms") == "2"
    assert topic.get_config("cleanup.policy") is None
    assert topic.is_overridden("retention.ms")
    assert not topic.is_overridden("segment.ms")
    assert not topic.is_overridden("cleanup.policy")


def test_settings_that_may_not_be_read_are_unknown():
    topic = ObservedTopic(name="orders", partitions=1, configs=None)
    assert topic.get_config("retention.ms") is None
    assert not topic.is_overridden("retention.ms")


def test_sources_have_the_numbers_of_the_protocol():
    assert ConfigEntrySource(1) is ConfigEntrySource.TOPIC
    assert ConfigEntrySource(5) is ConfigEntrySource.DEFAULT


def test_values_are_not_in_the_repr():
    assert "hunter2" not in repr(ConfigEntry(value="hunter2"))


def test_what_brokers_call_their_defaults_becomes_a_topics_settings():
    brokers = {
        "log.message.timestamp.type": "CreateTime",
        "message.max.bytes": "1048588",
        "log.message.timestamp.after.max.ms": "3600000",
        "log.cleanup.policy": None,
        "num.io.threads": "8",
    }
    assert mirror_topic_plan.derive_topic_defaults(brokers) == {
        "message.timestamp.type": "CreateTime",
        "max.message.bytes": "1048588",
        "message.timestamp.after.max.ms": "3600000",
    }
    assert mirror_topic_plan.derive_topic_defaults(None) is None


def test_known_timestamp_bounds_show_in_the_brokers_or_in_any_topic():
    after, before, difference = mirror_topic_plan.TIMESTAMP_BOUND_CONFIGS
    entry = ConfigEntry(value="1", source=ConfigEntrySource.DEFAULT)
    blind = ObservedTopic(name="a", partitions=1, configs=None)
    old = ObservedTopic(name="b", partitions=1, configs={difference: entry})
    found = TopicsSnapshot(topics={"a": blind, "b": old})
    assert found.list_timestamp_bound_configs() == (difference,)
    found = TopicsSnapshot(topics={"b": old}, default_configs={after: "1", before: "1"})
    assert found.list_timestamp_bound_configs() == (after, before)
    assert TopicsSnapshot(topics={}).list_timestamp_bound_configs() == (after, before)
