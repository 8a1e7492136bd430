from __future__ import annotations

import pytest

from mm2.topics import config_property_filter, topic_filters
from mm2.topics.flow_config import (
    DeliveryMode,
    Flow,
    FlowThrottles,
    SourceGapAction,
    StartPosition,
    StartPositionKind,
    TargetTopicAccess,
)
from mm2.topics.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy

CLUSTERS = "clusters: {a: {bootstrap.servers: 'a:1'}, b: {bootstrap.servers: 'b:1'}}\n"


def flow(keys: str = "", defaults: str = "") -> str:
    """One flow a->b with these keys, each on its line from 4 on."""
    lines = "".join(f"  {line}\n" for line in keys.splitlines())
    text = f"{CLUSTERS}flows:\n- from: a\n  to: b\n{lines}"
    return text + (f"defaults:\n  {defaults}\n" if defaults else "")


def test_a_flow_without_keys_has_mirrormakers_defaults_and_the_brokers_replication_factor(read):
    (found,) = read(flow()).flows
    assert found == Flow(source="a", target="b", replication_factor=-1)


def test_every_key_arrives(read):
    (found,) = read(
        flow(
            "topics: orders.*, users\n"
            "topics.exclude: [orders-test]\n"
            "groups: billing\n"
            "groups.exclude: []\n"
            "config.properties.exclude: x\n"
            "use.defaults.from: source\n"
            "replication.policy.separator: _\n"
            "replication.policy.internal.topic.separator.enabled: false\n"
            "heartbeats.replication.enabled: false\n"
            "replication.factor: 3\n"
            "tasks.max: 4\n"
            "refresh.topics.interval.seconds: 5\n"
            "sync.topic.configs.interval.seconds: 6\n"
            "admin.timeout.ms: 7000\n"
            "start: 2026-01-31T08:00:00Z\n"
            "target.topics: shared\n"
            "delivery: transactional\n"
            "on.source.gap: fail\n"
            "buffer.memory: 8388608\n"
            "offset.map.bytes: 2097152\n"
            "unreachable.after.seconds: 30\n"
            "emit.heartbeats.enabled: false\n"
        )
    ).flows
    assert found == Flow(
        source="a",
        target="b",
        policy=DefaultReplicationPolicy(separator="_", internal_separator="."),
        topics=topic_filters.compile_topic_filter(["orders.*", "users"], ["orders-test"]),
        groups=topic_filters.compile_group_filter(["billing"], []),
        config_filter=config_property_filter.compile_config_property_filter(
            ["x"], source_defaults=True
        ),
        replicate_heartbeats=False,
        replication_factor=3,
        tasks_max=4,
        start=StartPosition(StartPositionKind.TIMESTAMP, 1_769_846_400_000),
        target_topics=TargetTopicAccess.SHARED,
        delivery=DeliveryMode.TRANSACTIONAL,
        on_source_gap=SourceGapAction.FAIL,
        refresh_topics_interval_s=5,
        sync_topic_configs_interval_s=6,
        admin_timeout_s=7,
        buffer_bytes=8_388_608,
        offset_map_bytes_max=2_097_152,
        unreachable_after_s=30,
    )


def test_what_is_left_out_or_switched_off_is_not_warned_of(read):
    assert read(flow("topics: x\nsync.topic.configs.enabled: false")).warnings == ()
    assert read(flow("refresh.topics.enabled: false")).warnings == ()
    assert read(flow("refresh.topics.interval.seconds: 5")).warnings == ()


def test_settings_that_nobody_looks_at_again_do_not_follow(read):
    interval = "sync.topic.configs.interval.seconds: 5"
    assert read(flow(interval)).warnings == ()
    (warning,) = read(flow(f"refresh.topics.enabled: false\n{interval}")).warnings
    assert warning.key == "flows[0].sync.topic.configs.interval.seconds"
    assert warning.text.startswith("has no effect while refresh.topics.enabled is false")


def test_intervals_are_off_when_their_job_is(read):
    (found,) = read(flow("refresh.topics.enabled: false\nsync.topic.configs.enabled: false")).flows
    assert found.refresh_topics_interval_s is None
    assert found.sync_topic_configs_interval_s is None


def test_identity_knows_its_source_and_shares_its_topics(read):
    (found,) = read(
        flow("replication.policy.class: IdentityReplicationPolicy\nreplication.policy.separator: _")
    ).flows
    assert found.policy == IdentityReplicationPolicy(
        source_alias="a",
        defaults=DefaultReplicationPolicy(separator="_", internal_separator="_"),
    )
    assert found.target_topics is TargetTopicAccess.SHARED


def test_defaults_go_for_flows_that_do_not_say_otherwise(read):
    assert read(flow("", defaults="tasks.max: 9")).flows[0].tasks_max == 9
    assert read(flow("tasks.max: 2", defaults="tasks.max: 9")).flows[0].tasks_max == 2


def test_mistakes_in_defaults_are_told_once(wrong):
    text = flow("", defaults="tasks.max: x").replace("flows:\n", "flows:\n- {from: b, to: a}\n")
    (problem,) = wrong(text)
    assert problem.key == "defaults.tasks.max"


def test_defaults_have_no_ends(wrong):
    (problem,) = wrong(flow("", defaults="from: a"))
    assert (problem.key, problem.text) == ("defaults.from", "must be set in each flow, not here")


def test_a_disabled_flow_is_checked_and_left_out(read, wrong):
    text = flow().replace("- from: a", "- {from: b, to: a, enabled: false}\n- from: a")
    assert [found.name for found in read(text).flows] == ["a->b"]
    (problem,) = wrong(text.replace("enabled: false", "enabled: false, tasks.max: x"))
    assert problem.key == "flows[0].tasks.max"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("topics: '['", "not a regular expression"),
        ("topics: '\\p{Alpha}'", "[a-zA-Z]"),
        ("topic: a", "is not a known key"),
        ("topics.blacklist: a", "use topics.exclude"),
        ("transforms: x", "transforms.x.type is missing"),
        ("consumer.fetch.min.bytes: 1", "use the prefix source.consumer."),
        ("sync.topic.acls.enabled: perhaps", "is not allowed"),
        ("replication.policy.class: P", "is not allowed"),
        ("replication.policy.separator: ''", "is not allowed"),
        ("replication.factor: 0", "is not allowed"),
        ("tasks.max: 0", "is not allowed"),
        ("start: yesterday", "is not allowed"),
        ("buffer.memory: 1", "is not allowed"),
        ("offset.map.bytes: 1", "is not allowed"),
        ("unreachable.after.seconds: 3", "is not allowed"),
        ("delivery: atleastonce", "is not allowed"),
        ("throttle: 10B", "bytes per second, at least 1000"),
        ("throttle.topics: orders", "EXPRESSION=RATE"),
        ("throttle.topics: '=5MB'", "EXPRESSION=RATE"),
        ("throttle.topics: 'orders=fast'", "EXPRESSION=RATE"),
        ("throttle.topics: '[=5MB'", "not a regular expression"),
    ],
)
def test_mistakes_name_their_line(wrong, line, words):
    (problem,) = wrong(flow(line))
    assert problem.line == 5
    assert problem.key.startswith("flows[0].")
    assert words in problem.describe("c.yaml")


def test_a_flow_has_two_ends(wrong):
    (source, target) = wrong(f"{CLUSTERS}flows: [{{topics: a}}]\n")
    assert (source.text, target.text) == ("from is missing", "to is missing")


def test_a_flow_is_a_section(wrong):
    found = wrong(f"{CLUSTERS}flows: [a->b]\n")
    assert "must be a section" in found[0].text


def test_byte_budgets(read):
    (found,) = read(flow("throttle: 20MB\nthrottle.topics: [a=b=5MB, 'xx?= 64KiB/s']")).flows
    assert found.throttles.flow == 20_000_000
    assert [found.throttles.get_topic_throttle(name) for name in ("a=b", "xx", "y")] == [
        5 * 10**6,
        65536,
        None,
    ]
    (plain,) = read(flow("tasks.max: 1")).flows
    assert plain.throttles == FlowThrottles()


BASE = """clusters:
  a: {bootstrap.servers: 'a:1', consumer.fetch.min.bytes: 2, fetch.max.bytes: 3}
  b: {bootstrap.servers: 'b:1', producer.request.timeout.ms: 4}
"""


def test_a_flow_has_the_last_word_on_its_clients(read):
    found = read(
        BASE
        + """
defaults: {source.consumer.fetch.min.bytes: 5, source.consumer.fetch.max.wait.ms: 6}
flows:
- {from: a, to: b, source.consumer.fetch.min.bytes: 7, producer.override.bootstrap.servers: 'x:1'}
- {from: b, to: a, target.admin.request.timeout.ms: 8}
"""
    )
    there, back = map(found.get_clients, found.flows)
    assert {name: there.consumer.properties[name] for name in there.consumer.properties} == {
        "bootstrap.servers": "a:1",
        "fetch.max.bytes": "3",
        "fetch.min.bytes": "7",
        "fetch.max.wait.ms": "6",
    }
    assert there.producer.bootstrap_servers == ("x:1",)
    assert there.producer.properties["request.timeout.ms"] == "4"
    assert back.consumer.properties["fetch.min.bytes"] == "5"
    assert back.target_admin.properties["request.timeout.ms"] == "8"
    assert there.target_admin == found.clusters["b"]
    shown = found.effective["flows"][0]
    assert shown["source.consumer.fetch.min.bytes"] == "7"
    assert shown["source.consumer.fetch.max.wait.ms"] == "6"


def test_mistakes_in_defaults_are_told_once_where_they_stand(wrong):
    (problem,) = wrong(
        BASE
        + """defaults: {source.consumer.fetch.min.bytes: x}
flows: [{from: a, to: b}, {from: b, to: a}]
"""
    )
    assert (problem.line, problem.key) == (4, "defaults.source.consumer.fetch.min.bytes")
    (problem,) = wrong(BASE + "flows: [{from: a, to: b, source.admin.acks: all}]\n")
    assert problem.key == "flows[0].source.admin.acks"
    assert "mm2 sets it" in problem.text


def test_secrets_of_a_flow_are_hidden(read):
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    found = read(
        BASE.replace(
            "'a:1',",
            "'a:1', security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.jaas.config: "
            f'\'{login} username="u" password="first";\',',
        )
        + f"""flows:
- from: a
  to: b
  source.consumer.sasl.jaas.config: '{login} username="v" password="omega-pw";'
"""
    )
    clients = found.get_clients(found.flows[0])
    assert (clients.consumer.security.username, clients.source_admin.security.username) == (
        "v",
        "u",
    )
    assert "omega-pw" not in str(found.effective) + repr(found)
