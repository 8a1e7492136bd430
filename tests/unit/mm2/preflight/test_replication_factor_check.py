"""One finding for one cause: a replication factor that exceeds the brokers."""

from __future__ import annotations

import dataclasses

from mm2.preflight import replication_factor_check
from mm2.preflight.check_report import CheckFinding, CheckSeverity
from mm2.preflight.replication_factor_check import MissingTopic, ReplicationFactorCause

FILE = ReplicationFactorCause(
    key="replication.factor", place="defaults.replication.factor (c.yaml:5)"
)
MIRROR = MissingTopic(topic="east.orders", cluster="west", factor=3, cause=FILE, is_internal=False)
INTERNAL = MissingTopic(topic="mm2-status.east.internal", cluster="west", factor=3, cause=FILE)


def judge(*wanted: MissingTopic, brokers: int = 1) -> list[CheckFinding]:
    return list(
        replication_factor_check.check_replication_factors(
            "east->west", wanted, {"east": 2, "west": brokers}
        )
    )


def test_all_topics_of_one_cause_are_one_finding_with_the_place_to_change():
    (found,) = judge(MIRROR, INTERNAL, INTERNAL)
    assert (found.code, found.severity) == ("replication-factor", CheckSeverity.FAILED)
    assert found.text == "replication.factor 3 exceeds the 1 broker of west"
    assert found.affects == ("east.orders", "mm2-status.east.internal")
    assert found.fix == (
        "set defaults.replication.factor (c.yaml:5) to at most 1, or to -1, the brokers' default"
    )
    assert "the flow does not start" in found.effect
    (found,) = judge(MIRROR)
    assert "mirror topics cannot be created" in found.effect


def test_as_many_brokers_are_enough():
    assert judge(MIRROR, INTERNAL, brokers=3) == []


def test_one_cause_on_both_clusters_is_one_finding():
    syncs = dataclasses.replace(INTERNAL, topic="mm2-offset-syncs.west.internal", cluster="east")
    (found,) = judge(MIRROR, syncs)
    assert found.text == (
        "replication.factor 3 exceeds the 2 brokers of east and the 1 broker of west"
    )
    assert "at most 1" in found.fix
    assert found.affects == ("east.orders", "mm2-offset-syncs.west.internal")


def test_other_causes_are_findings_of_their_own():
    other = ReplicationFactorCause(
        key="west.status.storage.replication.factor", place="… (mm2.properties:9)"
    )
    first, second = judge(MIRROR, dataclasses.replace(INTERNAL, cause=other, factor=2))
    assert first.affects == ("east.orders",)
    assert second.text == "west.status.storage.replication.factor 2 exceeds the 1 broker of west"


def test_defaults_of_mirror_maker_are_one_cause_with_all_that_has_to_be_written():
    def default(topic: str, key: str, place: str, factor: int) -> MissingTopic:
        cause = ReplicationFactorCause(key=key, place=place, is_given=False)
        return MissingTopic(topic=topic, cluster="west", factor=factor, cause=cause)

    status = "status.storage.replication.factor"
    (found,) = judge(
        default("mm2-offset-map.east.internal", "replication.factor", "replication.factor", 2),
        default("mm2-incidents.east.internal", "replication.factor", "replication.factor", 2),
        default("mm2-status.east.internal", status, f"west.{status}", 3),
    )
    assert found.text == (
        "defaults of MirrorMaker 2 exceed the 1 broker of west: replication.factor 2, "
        "status.storage.replication.factor 3"
    )
    assert found.fix == ("write replication.factor = 1, west.status.storage.replication.factor = 1")
    assert len(found.affects) == 3


def test_the_brokers_own_default_is_changed_on_the_brokers():
    cause = replication_factor_check.build_broker_default_cause("west")
    (found,) = judge(dataclasses.replace(INTERNAL, cause=cause))
    assert found.text == "default.replication.factor 3 exceeds the 1 broker of west"
    assert found.fix == "set default.replication.factor on the brokers of west to at most 1"


def test_mirrors_that_are_created_later_count_without_a_name():
    (found,) = judge(dataclasses.replace(MIRROR, topic=""))
    assert found.affects == ()
