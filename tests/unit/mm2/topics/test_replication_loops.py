"""What keeps records from going in circles; names themselves: test_naming, test_flows."""

from __future__ import annotations

import dataclasses

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.topics import replication_loops, replication_policy, topic_selection
from mm2.topics.flow_config import Flow, StartPosition, StartPositionKind
from mm2.topics.replication_loops import OffsetSyncsLocation
from mm2.topics.replication_policy import IdentityReplicationPolicy

DEFAULT = Flow(source="A", target="B")
IDENTITY = dataclasses.replace(DEFAULT, policy=IdentityReplicationPolicy(source_alias="A"))
LATEST = dataclasses.replace(IDENTITY, start=StartPosition(StartPositionKind.LATEST))
T0, T1, U0 = (TopicPartition(*each) for each in (("t", 0), ("t", 1), ("u", 0)))
TAKEN = "taken over"


@pytest.mark.parametrize(
    ("flow", "topic", "java", "refused"),
    [
        (DEFAULT, "t", True, False),
        (IDENTITY, "t", False, False),
        (IDENTITY, "t", True, True),
        (IDENTITY, "heartbeats", True, False),
        (LATEST, "t", True, False),
    ],
)
def test_what_java_brought_cannot_be_told_from_local_records(flow, topic, java, refused):
    found = replication_loops.explain_loop(flow, topic, java=java)
    assert bool(found) is refused
    if refused:
        assert "mirrored B->A into this topic" in found
        assert "start: latest" in found


@pytest.mark.parametrize(
    ("progress", "eras", "topics"),
    [
        ((), {T0: ["first start"]}, set()),
        ((T0,), {}, {"t"}),
        ((T0,), {T0: ["first start", "does not pair"]}, set()),
        ((T0, T1), {T0: ["first start"]}, {"t"}),
        ((T0,), {T0: [TAKEN]}, {"t"}),
        ((T0, U0), {T0: ["first start"], U0: ["first start", TAKEN]}, {"u"}),
    ],
)
def test_progress_that_ours_did_not_make_is_javas(progress, eras, topics):
    assert (
        replication_loops.find_topics_mirrored_by_java(progress, eras, takeover_reason=TAKEN)
        == topics
    )


def test_the_topics_of_the_way_back_bear_our_targets_name():
    """B->A keeps its map and its progress on A, under the alias of its source."""
    back = Flow(source="B", target="A")
    assert replication_loops.format_reverse_offset_map_topic(
        DEFAULT
    ) == replication_policy.format_offset_map_topic(back.source)
    assert (
        replication_loops.format_reverse_connect_offsets_topic(DEFAULT) == "mm2-offsets.B.internal"
    )


def test_the_opposite_flows_syncs_are_not_looked_for_where_our_own_are():
    """B->A: by default on its source, our target, named for its target, our source."""
    usual = OffsetSyncsLocation(on_source=False, topic="mm2-offset-syncs.A.internal")
    other = OffsetSyncsLocation(on_source=True, topic="mm2-offset-syncs.B.internal")
    assert replication_loops.locate_reverse_offset_syncs(IDENTITY, own=None) == (usual, other)
    assert replication_loops.locate_reverse_offset_syncs(IDENTITY, own=other) == (usual,)
    assert replication_loops.locate_reverse_offset_syncs(IDENTITY, own=usual) == (other,)


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
    assert topic_selection.should_replicate_topic(DEFAULT, topic) is default
    assert topic_selection.should_replicate_topic(IDENTITY, topic) is identity
