"""The offset-syncs topic, followed."""

from __future__ import annotations

import pytest

from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import UnreachableError
from mm2.connectors.offset_map_and_sync_trackers import OffsetSyncsTracker
from mm2.kafka.kafka_client_interfaces import LogTruncatedError
from mm2.offsets.offset_translation import ExactOffset, UntranslatedReason
from tests.fakes.checkpoint_clients import FakeClusters

T0 = TopicPartition("t", 0)


@pytest.fixture
def clusters():
    return FakeClusters()


@pytest.fixture
def syncs(clusters):
    made = OffsetSyncsTracker(
        clusters.create_offset_syncs_reader,
        lambda topic: not topic.startswith("B."),
        keep_history=True,
    )
    yield made
    made.close()
    assert clusters.all_closed()


def test_nothing_translates_before_the_topic_was_read(clusters, syncs):
    clusters.synced(T0, 5, 3)
    assert not syncs.is_ready
    assert syncs.translate(T0, 5) is UntranslatedReason.NOT_READY
    syncs.refresh(1.0)
    assert syncs.is_ready
    assert syncs.translate(T0, 5) == ExactOffset(downstream=3)


def test_what_comes_later_counts_and_the_topic_is_read_once(clusters, syncs):
    clusters.synced(T0, 5, 3)
    syncs.refresh(1.0)
    clusters.synced(T0, 9, 4)
    syncs.refresh(1.0)
    assert syncs.translate(T0, 9) == ExactOffset(downstream=4)
    assert syncs.translate(T0, 5) == ExactOffset(downstream=3)
    assert len(clusters.made) == 1


def test_syncs_that_are_ignored_are_told_once_and_none_is_collected(clusters, syncs, caplog):
    clusters.synced(T0, 5, 3)
    clusters.synced(TopicPartition("not a topic", 0), 5, 3)
    for _ in range(2):
        syncs.refresh(1.0)
    warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len(warnings) == 1
    assert warnings[0].startswith("1 offset sync ignored: syncs of at most 250,000 partitions")
    assert syncs.translate(T0, 5) == ExactOffset(downstream=3)


def test_what_cannot_be_asked_leaves_what_is_known(clusters, syncs):
    clusters.synced(T0, 5, 3)
    syncs.refresh(1.0)
    clusters.syncs_failures.append(UnreachableError("away"))
    with pytest.raises(UnreachableError):
        syncs.refresh(1.0)
    assert syncs.translate(T0, 5) == ExactOffset(downstream=3)


def test_a_topic_that_was_made_anew_is_read_anew(clusters, syncs):
    clusters.synced(T0, 5, 3)
    syncs.refresh(1.0)
    clusters.syncs_log.clear()
    clusters.synced(T0, 7, 1)
    clusters.syncs_failures.append(LogTruncatedError("gone"))
    syncs.refresh(1.0)
    assert not syncs.is_ready
    syncs.refresh(1.0)
    assert syncs.translate(T0, 7) == ExactOffset(downstream=1)
    assert syncs.translate(T0, 5) is UntranslatedReason.TOO_OLD
    first, second = clusters.made
    assert first.closed
    assert not second.closed


def test_only_topics_of_the_flow_are_kept(clusters, syncs):
    clusters.synced(TopicPartition("B.t", 0), 5, 3)
    clusters.synced(T0, 5, 3)
    syncs.refresh(1.0)
    assert syncs.translate(TopicPartition("B.t", 0), 5) is UntranslatedReason.UNKNOWN
    assert syncs.translate(T0, 5) == ExactOffset(downstream=3)
