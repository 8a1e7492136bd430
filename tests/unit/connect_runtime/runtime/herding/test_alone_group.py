"""A group of one says at once what a group would, and wakes who listens."""

from __future__ import annotations

import pytest

from connect_runtime.core.assignment import work
from connect_runtime.core.herder import events
from connect_runtime.core.state import cluster_config
from connect_runtime.runtime.herding import alone_group
from tests.fakes.plugin_contexts import Clock

NO_CONFIG = cluster_config.EMPTY


@pytest.fixture
def wakes():
    return []


@pytest.fixture
def group(wakes):
    made = alone_group.AloneGroup("http://me/", lambda: NO_CONFIG, clock=Clock(5.0))
    made.start(lambda: wakes.append(1), work.Configured)
    return made


def test_asks_to_join_then_leads_alone(group, wakes):
    assert group.take() == [events.JoinAsked(work.NO_WORK)]
    assert group.take() == []
    group.prepared()
    (first,) = group.take()
    assert (first.leads, first.generation, first.assignment.leader_url) == (True, 1, "http://me/")
    group.rejoin("changed")
    assert group.take() == [events.JoinAsked(work.NO_WORK)]


def test_everything_new_wakes_the_herder(group, wakes):
    for count, act in enumerate((group.ticked, group.prepared, group.give_up_work), 1):
        act()
        assert len(wakes) == min(count, 2), act
    group.rejoin("changed")
    assert len(wakes) == 3


def test_nobody_is_ever_in_doubt_whether_it_is_still_a_member(group):
    group.confirm_soon()
    assert group.confirmed_at_s() == 5.0
    assert group.session_timeout_s > 0


def test_is_nothing_before_it_is_started_and_after_it_is_closed(group, wakes):
    unborn = alone_group.AloneGroup("http://me/", lambda: NO_CONFIG, clock=Clock())
    unborn.rejoin("early")
    assert unborn.take() == []
    group.close(1.0)
    group.rejoin("late")
    assert group.take() == []
    assert len(wakes) == 1
