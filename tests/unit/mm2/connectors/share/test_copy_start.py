"""A copy begins before it is known what it copies, and waits a while for that."""

from __future__ import annotations

from typing import Any, cast

import pytest

from mm2.connectors.share import copy_start
from mm2.core.copy import messages, reach
from mm2.pipeline import control_channel, engine
from tests.fakes import copy_plane, mirror_task
from tests.support import eventually

ACCESS = messages.ClusterAccess(alias="x", bootstrap=(), security={}, client_id="")
REACH = reach.Reach(source=ACCESS, target=ACCESS, topics=(), mirrors=())


@pytest.fixture
def plane() -> copy_plane.FakePlane:
    return copy_plane.FakePlane()


@pytest.fixture
def ahead(plane: copy_plane.FakePlane) -> copy_start.AheadOfTime:
    inbox = control_channel.Inbox()
    return copy_start.AheadOfTime(
        copy_start.Place(flow="A->B", task=3, plane=cast(Any, plane), inbox=inbox), lambda: REACH
    )


def test_it_begins_once_and_is_taken_once(plane, ahead):
    assert ahead.take() is None
    ahead.tend(0.0)
    ahead.tend(1.0)
    taken = ahead.take()
    assert taken is not None
    assert taken.channel is cast(Any, plane.copy)
    assert (len(plane.handles), plane.handles[0].cancelled) == (1, False)
    assert ahead.take() is None
    ahead.tend(2.0)
    assert len(plane.handles) == 1


def test_it_does_not_wait_for_ever(plane, ahead):
    ahead.tend(0.0)
    ahead.tend(copy_start.AHEAD_S)
    assert plane.handles[0].cancelled
    assert plane.copy.closed
    ahead.tend(2 * copy_start.AHEAD_S)
    assert (ahead.take(), len(plane.handles)) == (None, 1)


@pytest.mark.parametrize("how", ["handle", "channel"])
def test_one_that_has_ended_is_not_taken(plane, ahead, how):
    ahead.tend(0.0)
    if how == "handle":
        plane.handles[0].state = engine.CopyState.ENDED
    else:
        plane.copy.closed_reason = "the copy is gone"
    assert ahead.take() is None


def test_a_task_lets_its_copy_begin_while_it_asks_its_clusters():
    found = mirror_task.MirrorTask(there=False)
    found.turn()
    assert [each["type"] for each in found.plane.copy.sent] == ["reach"]
    told = reach.read(found.plane.copy.sent[0])
    assert (told.topics, told.mirrors) == (("orders",), ("A.orders",))
    found.task.stop()
    assert found.plane.handles[0].cancelled
    assert found.plane.copy.closed == "the task stops"


def test_the_copy_that_has_begun_is_told_what_to_copy():
    found = mirror_task.MirrorTask()
    found.turn()
    assert len(found.plane.handles) == 1
    found.runs()
    assert len(found.plane.handles) == 1
    told, configured = reach.read(found.plane.copy.sent[0]), found.plane.configured()
    assert (told.source, told.target) == (configured.source, configured.target)
    assert told.mirrors == tuple({each.remote_topic for each in configured.partitions})
    found.task.stop()


def test_one_that_has_ended_meanwhile_is_followed_by_another():
    found = mirror_task.MirrorTask()
    found.turn()
    found.plane.handles[0].state = engine.CopyState.ENDED
    found.begins()
    eventually.eventually(lambda: len(found.plane.handles) == 2, 10.0)
    found.task.stop()
