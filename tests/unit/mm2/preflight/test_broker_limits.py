from __future__ import annotations

import dataclasses

import pytest

from mm2.preflight import broker_limits
from mm2.preflight.broker_limits import TargetBrokers
from mm2.preflight.check_report import CheckArea, CheckFinding, CheckSeverity

Weight = CheckSeverity
SOUND = {
    "auto.create.topics.enable": "false",
    "transaction.max.timeout.ms": "900000",
    "producer.id.expiration.ms": "86400000",
    "transactional.id.expiration.ms": "604800000",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "unclean.leader.election.enable": "false",
    "transaction.state.log.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "group.min.session.timeout.ms": "6000",
    "group.max.session.timeout.ms": "1800000",
    "log.retention.ms": None,
    "log.retention.minutes": None,
    "log.retention.hours": "168",
}
TARGET = TargetBrokers(
    alias="west", brokers=3, configs=SOUND, topics=frozenset(), factor=3, session_ms=10_000
)


def told(**changes: object) -> list[CheckFinding]:
    return list(
        broker_limits.check_target_brokers(
            "east->west",
            dataclasses.replace(TARGET, **changes),  # type: ignore[arg-type]
        )
    )


def test_sound_settings_have_no_findings():
    assert told() == []
    assert set(SOUND) == set(broker_limits.BROKER_SETTINGS)


def test_settings_that_may_not_be_read_say_nothing():
    assert told(configs=None) == []


@pytest.mark.parametrize(
    ("setting", "value", "code", "weight"),
    [
        ("auto.create.topics.enable", "true", "auto-create", Weight.WARNING),
        ("transaction.max.timeout.ms", "30000", "transaction-timeout", Weight.FAILED),
        ("producer.id.expiration.ms", "600000", "producer-expiration", Weight.WARNING),
        ("transactional.id.expiration.ms", "600000", "producer-expiration", Weight.WARNING),
        ("min.insync.replicas", "4", "min-insync", Weight.FAILED),
        ("min.insync.replicas", "3", "min-insync", Weight.WARNING),
        ("unclean.leader.election.enable", "true", "unclean-election", Weight.WARNING),
        ("transaction.state.log.replication.factor", "4", "broker-state-factor", Weight.FAILED),
        ("offsets.topic.replication.factor", "4", "broker-state-factor", Weight.FAILED),
        ("group.min.session.timeout.ms", "20000", "session-timeout", Weight.FAILED),
        ("group.max.session.timeout.ms", "9000", "session-timeout", Weight.FAILED),
    ],
)
def test_a_setting_that_bites_is_named(setting, value, code, weight):
    (found,) = told(configs={**SOUND, setting: value})
    assert (found.code, found.severity) == (code, weight)
    assert found.area is CheckArea.SETTINGS
    if not setting.startswith("group."):
        assert f"{setting} is {value}" in found.text
    assert found.fix


def test_the_brokers_default_is_known_where_it_may_be_read():
    assert broker_limits.get_default_replication_factor(SOUND) == 3
    assert broker_limits.get_default_replication_factor({}) is None
    assert broker_limits.get_default_replication_factor(None) is None


def test_a_single_replica_among_many_brokers_is_a_warning():
    one = {**SOUND, "min.insync.replicas": "1"}
    (found,) = told(factor=1, configs=one)
    assert (found.code, found.severity) == ("replication-factor-one", Weight.WARNING)
    small = {
        **one,
        **dict.fromkeys(
            ("transaction.state.log.replication.factor", "offsets.topic.replication.factor"), "1"
        ),
    }
    assert told(factor=1, brokers=1, configs=small) == []


def test_topics_that_are_there_need_not_be_made():
    more = {**SOUND, "offsets.topic.replication.factor": "4"}
    assert told(configs=more, topics=frozenset({"__consumer_offsets"})) == []


def test_two_aliases_of_one_cluster_are_told():
    def same(one: str, other: str, *, renames: bool) -> list[CheckFinding]:
        return list(broker_limits.check_clusters_differ("east->west", one, other, renames=renames))

    (found,) = same("id", "id", renames=False)
    assert (found.code, found.severity) == ("same-cluster", Weight.FAILED)
    (found,) = same("id", "id", renames=True)
    assert found.severity is Weight.WARNING
    assert same("id", "other", renames=False) == []
    assert same("", "", renames=False) == []


@pytest.mark.parametrize(
    ("configs", "kept_ms"),
    [
        (None, None),
        ({}, None),
        ({"log.retention.hours": "168"}, 604_800_000),
        ({"log.retention.minutes": "2", "log.retention.hours": "168"}, 120_000),
        ({"log.retention.ms": "5", "log.retention.minutes": "2"}, 5),
        ({"log.retention.ms": "-1", "log.retention.hours": "168"}, -1),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_how_long_brokers_keep_records(configs, kept_ms):
    assert broker_limits.get_default_retention_ms(configs) == kept_ms
