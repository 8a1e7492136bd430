"""The map topic, followed: what is missing, forbidden, broken, or of a topic that is no more."""

from __future__ import annotations

import logging

import pytest

from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import (
    NotAuthorizedError,
    TopicMissingError,
    UnreachableError,
)
from mm2.connectors import offset_map_and_sync_trackers
from mm2.connectors.offset_map_and_sync_trackers import OffsetMapTracker
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.kafka.kafka_client_interfaces import LogTruncatedError
from mm2.offsets.offset_translation import ExactOffset, UntranslatedReason
from tests.fakes import copied_map
from tests.fakes.checkpoint_clients import FakeClusters, FakeTail
from tests.fakes.plugin_contexts import Clock

T7 = copied_map.T7
EXACT = ExactOffset(downstream=7)
UNKNOWN = UntranslatedReason.UNKNOWN


def records(delta=-5, *, topic="orders"):
    return copied_map.log(TopicPartition(topic, 7), through=30, delta=delta)


class World:
    def __init__(self) -> None:
        self.clusters = FakeClusters(map_log=records())
        self.clock = Clock()
        self.map = OffsetMapTracker(
            self.clusters.create_offset_map_reader,
            lambda topic: topic == "orders",
            flow="east->west",
            clock=self.clock,
        )

    def translate(self, upstream=12, *, newest=None):
        sync = newest and OffsetSync(partition=T7, upstream=newest[0], downstream=newest[1])
        return self.map.translate(T7, upstream, newest=sync)

    def refresh(self) -> None:
        self.map.refresh(1.0)


@pytest.fixture
def world():
    made = World()
    yield made
    made.map.close()
    assert made.clusters.all_closed()


def test_what_we_copied_is_exact_and_what_comes_later_counts(world):
    assert world.translate() is UNKNOWN
    world.refresh()
    assert world.translate() == EXACT
    world.clusters.map_log += records(delta=-2)
    world.refresh()
    assert world.translate() == ExactOffset(downstream=10)
    assert len(world.clusters.made) == 1


def test_only_topics_of_the_flow_are_kept(world):
    world.clusters.map_log += records(topic="others")
    world.refresh()
    assert world.map.translate(TopicPartition("others", 7), 12, newest=None) is UNKNOWN


@pytest.mark.parametrize(
    ("failure", "lines"),
    [
        (TopicMissingError("there is no topic"), 0),
        (NotAuthorizedError("reading: not allowed"), 1),
    ],
)
def test_what_may_not_be_read_is_looked_for_again_after_a_minute(world, caplog, failure, lines):
    caplog.set_level(logging.INFO)
    for _ in range(3):
        world.clusters.map_failures.append(failure)
        world.refresh()
        world.refresh()
        assert world.clusters.map_failures == []
        assert world.translate() is UNKNOWN
        world.clock.now += offset_map_and_sync_trackers.MAP_RETRY_DELAY_S
    world.refresh()
    assert world.translate() == EXACT
    assert len(caplog.records) == lines, caplog.text


def test_a_target_that_is_away_leaves_what_is_known(world):
    world.refresh()
    world.clusters.map_failures.append(UnreachableError("away"))
    with pytest.raises(UnreachableError):
        world.refresh()
    assert world.translate() == EXACT


def test_a_topic_that_was_made_anew_is_read_anew(world, caplog):
    world.refresh()
    gone = LogTruncatedError("the map topic is another one now")
    world.clusters.map_failures.append(gone)
    world.refresh()
    assert world.translate() is UNKNOWN
    world.refresh()
    assert world.translate() == EXACT
    assert "another one" in caplog.text


@pytest.mark.parametrize(
    "bad", [(None, b""), (b"\x09\x09", b""), (b"", b""), (records()[1][0], b"\x01")]
)
def test_what_a_newer_release_wrote_is_not_guessed(world, caplog, bad):
    world.clusters.map_log.append(bad)
    world.refresh()
    assert world.translate() is UNKNOWN
    assert "using only offset syncs" in caplog.text


def test_a_map_that_syncs_contradict_is_left_alone_and_told_once(world, caplog):
    world.refresh()
    assert world.translate(newest=(20, 15)) == EXACT
    for _ in range(2):
        assert world.translate(newest=(20, 16)) is UNKNOWN
    assert len(caplog.records) == 1
    assert world.translate(newest=(40, 2)) == EXACT, "of what came later it says nothing"


def test_a_map_that_is_read_in_part_is_not_used(world, monkeypatch):
    read_all = FakeTail.read_to_end

    def read_in_part(tail, timeout_s, take):
        read_all(tail, timeout_s, take)
        raise UnreachableError("away")

    with monkeypatch.context() as patched:
        patched.setattr(FakeTail, "read_to_end", read_in_part)
        with pytest.raises(UnreachableError):
            world.refresh()
    assert world.translate() is UNKNOWN
    world.refresh()
    assert world.translate() == EXACT
