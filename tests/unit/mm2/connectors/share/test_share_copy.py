"""What a task's copy is replaced with, and how it ends when something else fails."""

from __future__ import annotations

import pytest

from mm2.connectors.topics import mirror_topics
from mm2.pipeline import control_channel, engine
from tests.fakes import mirror_task
from tests.support import eventually


@pytest.fixture
def replaced(monkeypatch):
    """A copy that is about to be replaced, as it was asked to stop."""
    monkeypatch.setattr(mirror_topics, "SPREADS_S", 0.0)
    found = mirror_task.MirrorTask(mirrored=1, refresh_topics_interval_seconds="1").runs()
    found.clusters.target_cluster.topics["A.orders"].partitions = 2

    def asked() -> bool:
        found.turn()
        return bool(found.plane.copy.told("stop"))

    eventually.eventually(asked, mirror_task.WAIT_S)
    yield found
    found.task.stop()


def leaves(found: mirror_task.MirrorTask) -> None:
    """Its copy has stopped; the next one is begun."""
    found.plane.copy.says(type=control_channel.CLOSED, reason="it left")
    found.plane.handles[-1].state = engine.CopyState.ENDED
    found.turn(0.1)
    found.turn(0.1)
    assert len(found.plane.channels) == 2


def test_what_is_set_while_a_copy_is_replaced_holds_for_the_next(replaced):
    live = {
        **replaced.props,
        "mm2.task.throttle": "1000",
        "mm2.task.throttle.topics": "orders=10",
    }
    assert replaced.task.reconfigure(live)
    replaced.task.pause()
    leaves(replaced)
    begun = replaced.plane.configured()
    assert len(begun.partitions) == 2
    assert (begun.throttle_bytes_s, begun.topic_throttles) == (1000, {"orders": 10})
    assert replaced.plane.copy.told("pause")


class Broken(Exception):
    pass


def fails(*_: object, **__: object) -> None:
    raise Broken


@pytest.mark.parametrize("part", ["_looks.stop", "_take_messages", "_ledger.work"])
def test_whatever_fails_as_it_stops_the_copy_ends_and_all_is_closed(part, monkeypatch):
    found = mirror_task.MirrorTask().runs()
    found.context.stop_timeout_s = 5.0
    share_copy = found.task._copy
    place, _, name = part.rpartition(".")
    monkeypatch.setattr(getattr(share_copy, place) if place else share_copy, name, fails)
    with pytest.raises(Broken):
        found.task.stop()
    assert_all_ended(found)
    found.task.stop()


def test_a_writer_that_cannot_be_closed_leaves_the_rest_closed(monkeypatch):
    found = mirror_task.MirrorTask().runs()
    found.context.stop_timeout_s = 0.0
    monkeypatch.setattr(found.clusters.writer, "poll", fails)
    with pytest.raises(Broken):
        found.task.stop()
    found.clusters.writer.close(0.0)
    assert_all_ended(found)


def assert_all_ended(found: mirror_task.MirrorTask) -> None:
    assert found.plane.handles[0].cancelled
    assert found.plane.copy.closed
    assert found.clusters.writer.closed
    assert found.plane.released == 1
    (ledger,) = found.clusters.ledgers
    with pytest.raises(AssertionError, match="open the flow log first"):
        ledger.catch_up(0.0)
