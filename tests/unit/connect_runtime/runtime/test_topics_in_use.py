from __future__ import annotations

import pytest

from connect_runtime.base import ids
from connect_runtime.runtime import topics_in_use
from tests.fakes import task_clients

TASK = ids.ConnectorTaskId("c", 1)


class Hours:
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.at_s = 5.0

    def now_s(self) -> float:
        return self.at_s

    def wall_ms(self) -> int:
        return int(self.at_s * 1000)


@pytest.fixture
def statuses() -> task_clients.Statuses:
    return task_clients.Statuses()


@pytest.fixture
def hours() -> Hours:
    return Hours()


def of(
    statuses: task_clients.Statuses, hours: Hours, *, tracked: bool = True
) -> topics_in_use.TopicsInUse:
    return topics_in_use.TopicsInUse(TASK, statuses=statuses, clock=hours, tracked=tracked)


def test_a_topic_is_told_when_it_is_used_and_again_when_it_was_forgotten(
    statuses: task_clients.Statuses, hours: Hours
) -> None:
    """ConnectorTopicsIntegrationTest.testGetActiveTopics, its end."""
    topics = of(statuses, hours)
    for _ in range(3):
        topics.used("t")
        hours.at_s += 0.1
    [told] = statuses.topics
    assert (told.topic, told.connector, told.task, told.discovered_ms) == ("t", "c", 1, 5000)
    statuses.topics.clear()
    topics.used("t")
    assert statuses.topics == [], "looked for a moment ago"
    hours.at_s += topics_in_use.LOOK_AGAIN_S
    topics.used("t")
    assert [each.topic for each in statuses.topics] == ["t"]


def test_what_another_task_said_is_not_said_again(
    statuses: task_clients.Statuses, hours: Hours
) -> None:
    of(statuses, hours).used("t")
    of(statuses, hours).used("t")
    assert len(statuses.topics) == 1


def test_where_nothing_is_tracked_nothing_is_said(
    statuses: task_clients.Statuses, hours: Hours
) -> None:
    of(statuses, hours, tracked=False).used("t")
    assert statuses.topics == []
