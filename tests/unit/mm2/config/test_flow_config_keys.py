from __future__ import annotations

import pytest

from mm2.config import flow_config_keys, mm2_only_keys
from mm2.config.yaml_section_reader import ConfigOption

OPTIONS = [
    item
    for item in (*vars(flow_config_keys).values(), *flow_config_keys.CONNECTOR_OPTIONS)
    if isinstance(item, ConfigOption)
] + [each.option for each in mm2_only_keys.ALL]


def test_defaults_are_allowed_values():
    for option in OPTIONS:
        if option.default is not None:
            texts = option.default if isinstance(option.default, tuple) else (option.default,)
            option.kind.parse(texts)


def test_no_key_is_both_taken_and_refused():
    names = [option.name for option in OPTIONS]
    assert len(names) == len(set(names))
    assert not set(names) & set(flow_config_keys.REFUSED_KEYS)


# The connector keys of MirrorMaker 2 (source, checkpoint, heartbeat, and what they share).
MIRRORMAKER_KEYS = """
    admin.timeout.ms checkpoints.topic.replication.factor config.properties.exclude
    config.property.filter.class consumer.poll.timeout.ms emit.checkpoints.enabled
    emit.checkpoints.interval.seconds emit.heartbeats.enabled emit.heartbeats.interval.seconds
    emit.offset-syncs.enabled enabled forwarding.admin.class group.filter.class groups
    groups.exclude heartbeats.replication.enabled heartbeats.topic.replication.factor
    metric.names.formats metric.reporters offset-syncs.topic.location
    offset-syncs.topic.replication.factor offset.lag.max refresh.groups.enabled
    refresh.groups.interval.seconds refresh.topics.enabled refresh.topics.interval.seconds
    replication.factor replication.policy.class
    replication.policy.internal.topic.separator.enabled replication.policy.separator
    source.cluster.alias sync.group.offsets.enabled sync.group.offsets.interval.seconds
    sync.topic.acls.enabled sync.topic.acls.interval.seconds sync.topic.configs.enabled
    sync.topic.configs.interval.seconds target.cluster.alias tasks.max topic.filter.class topics
    topics.exclude use.defaults.from
    config.action.reload connector.class errors.log.enable errors.log.include.messages
    errors.retry.delay.max.ms errors.retry.timeout errors.tolerance header.converter key.converter
    name predicates tasks.max.enforce transforms value.converter exactly.once.support
    add.source.alias.to.metrics config.properties.blacklist groups.blacklist topics.blacklist
    use.incremental.alter.configs
    consumer.fetch.min.bytes producer.linger.ms admin.retries source.consumer.max.poll.records
    target.producer.linger.ms producer.override.acks topic.creation.default.partitions
""".split()  # noqa: SIM905 - seventy quoted words would hide the keys


@pytest.mark.parametrize("key", MIRRORMAKER_KEYS)
def test_every_key_of_mirrormaker_is_taken_or_refused_by_name(key):
    taken = key in {option.name for option in OPTIONS}
    refused = key in flow_config_keys.REFUSED_KEYS
    family = key.startswith(tuple(flow_config_keys.REFUSED_PREFIXES))
    assert (taken != refused) or (family and not taken)


def test_policies_have_java_names_and_short_ones():
    for name in ("IdentityReplicationPolicy", "identityreplicationpolicy"):
        assert flow_config_keys.is_identity_policy(flow_config_keys.POLICY.kind.parse((name,)))
    java = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    assert flow_config_keys.is_identity_policy(flow_config_keys.POLICY.kind.parse((java,)))
    assert not flow_config_keys.is_identity_policy(
        flow_config_keys.POLICY.kind.parse((flow_config_keys.DEFAULT_POLICY,))
    )
    with pytest.raises(ValueError, match="Custom"):
        flow_config_keys.POLICY.kind.parse(("com.example.CustomPolicy",))


def test_target_topics_default_to_what_the_policy_allows():
    assert (
        flow_config_keys.build_target_topics_option(flow_config_keys.DEFAULT_POLICY).default
        == "exclusive"
    )
    assert (
        flow_config_keys.build_target_topics_option(flow_config_keys.IDENTITY_POLICY).default
        == "shared"
    )
