"""Which topics a flow keeps for itself, out of a file."""

from __future__ import annotations

import pathlib

from mm2.app import effective_config, flow_plan
from mm2.app.preflight import own_topics
from mm2.app.settings import load
from mm2.core.preflight import findings, rights

Client, Weight = rights.Client, findings.Weight
BASE = """clusters=a,b
a.bootstrap.servers=a:1
b.bootstrap.servers=b:1
a->b.enabled=true
"""


def read(
    *lines: str, flow: int = 0
) -> tuple[own_topics.Configured, dict[str, own_topics.OwnTopic]]:
    settings = load.parse_properties(
        BASE + "\n".join(lines), file="mm2", folder=pathlib.Path("/"), environment={}
    )
    plan = flow_plan.plans(settings, flow_plan.EVERYTHING, environment={})[flow]
    config = own_topics.configured(settings, plan)
    return config, {each.wanted.name: each for each in own_topics.of(plan, config)}


def test_all_topics_of_a_flow_are_known_with_who_makes_and_who_uses_them():
    _, found = read()
    assert {name: (each.maker, each.user) for name, each in found.items()} == {
        "mm2-configs.a.internal": (Client.WORKER, Client.WORKER),
        "mm2-offsets.a.internal": (Client.WORKER, Client.WORKER),
        "mm2-status.a.internal": (Client.WORKER, Client.WORKER),
        "mm2-offset-map.a.internal": (Client.TARGET_ADMIN, Client.PRODUCER),
        "mm2-receipts.a.internal": (Client.TARGET_ADMIN, Client.PRODUCER),
        "mm2-offset-syncs.b.internal": (Client.SOURCE_ADMIN, Client.SOURCE_ADMIN),
        "a.checkpoints.internal": (Client.TARGET_ADMIN, Client.WORKER),
        "heartbeats": (Client.TARGET_ADMIN, Client.WORKER),
    }
    assert {each.wanted.name for each in found.values() if each.on_source} == {
        "mm2-offset-syncs.b.internal"
    }


def test_a_flow_for_heartbeats_alone_keeps_them_and_what_its_worker_needs():
    _, found = read(flow=1)
    assert set(found) == {
        *("mm2-configs.b.internal", "mm2-offsets.b.internal", "mm2-status.b.internal"),
        "heartbeats",
    }


def test_heartbeats_that_nobody_writes_are_made_all_the_same():
    _, found = read("emit.heartbeats.enabled=false")
    assert not found["heartbeats"].written
    _, found = read()
    assert found["heartbeats"].written


def test_what_comes_of_missing_rights_is_told_of_each():
    _, found = read()
    syncs, checkpoints = found["mm2-offset-syncs.b.internal"], found["a.checkpoints.internal"]
    assert (syncs.need.weight, checkpoints.need.weight) == (Weight.WARNING, Weight.FAILED)
    assert "no checkpoints" in checkpoints.need.means
    assert "does not begin" in found["mm2-configs.a.internal"].need.means


def test_partitions_and_factors_are_as_the_file_says():
    _, found = read("a->b.replication.factor=2", "status.storage.replication.factor=1")
    status = found["mm2-status.a.internal"].wanted
    assert (status.partitions, status.replication_factor) == (None, 1)
    assert status.factor_key == "status.storage.replication.factor"
    assert found["mm2-configs.a.internal"].wanted.partitions == 1
    kept = found["mm2-offset-map.a.internal"].wanted
    assert (kept.partitions, kept.replication_factor, kept.refused) == (1, 2, True)
    assert not found["heartbeats"].wanted.refused


def test_offset_syncs_are_where_the_file_says_or_nowhere():
    _, found = read("a->b.offset-syncs.topic.location=target")
    assert found["mm2-offset-syncs.a.internal"].maker is Client.TARGET_ADMIN
    _, found = read("a->b.emit.offset-syncs.enabled=false", "a->b.emit.checkpoints.enabled=false")
    assert not [name for name in found if "syncs" in name or "checkpoints" in name]


def test_what_a_flow_back_keeps_is_read_only_where_names_are_kept():
    config, _ = read()
    assert own_topics.read_too(config.source.flow) == ()
    policy = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    config, _ = read(f"replication.policy.class={policy}")
    assert {(each.client, each.name) for each in own_topics.read_too(config.source.flow)} == {
        (Client.CONSUMER, "mm2-offset-map.b.internal"),
        (Client.TARGET_ADMIN, "mm2-offset-syncs.a.internal"),
    }


def test_where_replication_factors_come_from():
    text = BASE + "replication.factor=3\nb.status.storage.replication.factor=2\n"
    settings = load.parse_properties(
        text, file="/etc/mm2.properties", folder=pathlib.Path("/"), environment={}
    )
    flow = effective_config.of(settings, environment={}).flows["a->b"]
    causes = own_topics.FactorCauses(flow, file=settings.file, target="b")
    found = causes.cause("replication.factor")
    assert (found.key, found.place) == (
        "replication.factor",
        "replication.factor (mm2.properties:5)",
    )
    found = causes.cause("status.storage.replication.factor")
    assert found.place == "b.status.storage.replication.factor (mm2.properties:6)"
    found = causes.cause("config.storage.replication.factor")
    assert (found.place, found.is_given) == ("b.config.storage.replication.factor", False)
    found = causes.cause("checkpoints.topic.replication.factor")
    assert (found.place, found.is_given) == ("checkpoints.topic.replication.factor", False)
