"""The offset-syncs topic, followed."""

from __future__ import annotations

import pytest

from connect_runtime.base import ids
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import errors as cluster_errors
from mm2.connectors.checkpoints import offset_syncs
from mm2.core.offsets import translation
from tests.fakes import checkpoint_clients

T0 = ids.TopicPartition("t", 0)


@pytest.fixture
def clusters():
    return checkpoint_clients.FakeClusters()


@pytest.fixture
def syncs(clusters):
    made = offset_syncs.OffsetSyncs(clusters.offset_syncs, keep_history=True)
    yield made
    made.close()
    assert clusters.all_closed()


def test_nothing_translates_before_the_topic_was_read(clusters, syncs):
    clusters.synced(T0, 5, 3)
    assert not syncs.ready
    assert syncs.translate(T0, 5) is translation.Untranslated.NOT_READY
    syncs.refresh(1.0)
    assert syncs.ready
    assert syncs.translate(T0, 5) == translation.Exact(downstream=3)


def test_what_comes_later_counts_and_the_topic_is_read_once(clusters, syncs):
    clusters.synced(T0, 5, 3)
    syncs.refresh(1.0)
    clusters.synced(T0, 9, 4)
    syncs.refresh(1.0)
    assert syncs.translate(T0, 9) == translation.Exact(downstream=4)
    assert syncs.translate(T0, 5) == translation.Exact(downstream=3)
    assert len(clusters.made) == 1


def test_what_cannot_be_asked_leaves_what_is_known(clusters, syncs):
    clusters.synced(T0, 5, 3)
    syncs.refresh(1.0)
    clusters.syncs_failures.append(kafka_errors.UnreachableError("away"))
    with pytest.raises(kafka_errors.UnreachableError):
        syncs.refresh(1.0)
    assert syncs.translate(T0, 5) == translation.Exact(downstream=3)


def test_a_topic_that_was_made_anew_is_read_anew(clusters, syncs):
    clusters.synced(T0, 5, 3)
    syncs.refresh(1.0)
    clusters.syncs_log.clear()
    clusters.synced(T0, 7, 1)
    clusters.syncs_failures.append(cluster_errors.LogTruncatedError("gone"))
    syncs.refresh(1.0)
    assert not syncs.ready
    syncs.refresh(1.0)
    assert syncs.translate(T0, 7) == translation.Exact(downstream=1)
    assert syncs.translate(T0, 5) is translation.Untranslated.TOO_OLD
    first, second = clusters.made
    assert first.closed
    assert not second.closed
