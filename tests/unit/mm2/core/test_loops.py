"""What keeps records from going in circles; names themselves: test_naming, test_flows."""

from __future__ import annotations

import dataclasses

import pytest

from mm2.core import flows, loops, naming
from mm2.core.loops import Guard, Opposite

DEFAULT = flows.Flow(source="A", target="B")
IDENTITY = dataclasses.replace(DEFAULT, policy=naming.IdentityReplicationPolicy(source_alias="A"))
LATEST = dataclasses.replace(IDENTITY, start=flows.StartPosition(flows.StartAt.LATEST))


@pytest.mark.parametrize(
    ("flow", "opposite", "guard", "refused"),
    [
        (DEFAULT, Opposite(map_topic=True, java=True, repartitions=True), Guard.NAMES, ""),
        (IDENTITY, Opposite(), Guard.NOTHING, ""),
        (IDENTITY, Opposite(map_topic=True), Guard.PRODUCERS, ""),
        (IDENTITY, Opposite(java=True), Guard.PRODUCERS, "Java mirrored B->A"),
        (IDENTITY, Opposite(map_topic=True, java=True), Guard.PRODUCERS, "start=latest"),
        (LATEST, Opposite(java=True), Guard.PRODUCERS, ""),
        (LATEST, Opposite(repartitions=True), Guard.PRODUCERS, "transforms of B->A"),
    ],
)
def test_by_what_records_of_the_way_back_are_known(flow, opposite, guard, refused):
    found = loops.verdict(flow, opposite)
    assert found.guard is guard
    assert refused in found.refused
    assert bool(found.refused) is bool(refused)


def test_the_ids_of_the_way_back_are_kept_under_our_targets_name():
    """B->A keeps its map on A, under the alias of its source."""
    back = flows.Flow(source="B", target="A")
    assert loops.opposite_map_topic(DEFAULT) == naming.map_topic(back.source)


@pytest.mark.parametrize(
    ("topic", "default", "identity"),
    [
        ("B.t", False, True),
        ("B.A.t", False, True),
        ("A.B.t", False, True),
        ("B.A.B.t", False, True),
        ("A.B.A.t", False, True),
        ("t", True, True),
        ("A.t", True, True),
        ("B.heartbeats", False, False),
        ("B.A.heartbeats", False, False),
        ("A.B.heartbeats", False, False),
        ("heartbeats", True, True),
        ("C.heartbeats", True, True),
    ],
)
def test_names_tell_as_in_java(topic, default, identity):
    """`testNoCycles`, `testIdentityReplication`: heartbeats show cycles under either policy."""
    assert DEFAULT.should_replicate_topic(topic) is default
    assert IDENTITY.should_replicate_topic(topic) is identity
