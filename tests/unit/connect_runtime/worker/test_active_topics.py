from __future__ import annotations

import pytest

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.worker import active_topics
from connect_runtime.worker.active_topics import ActiveTopics
from tests.fakes.task_clients import Statuses

TASK = ConnectorTaskId("c", 1)


class Hours:
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.at_s = 5.0

    def now_s(self) -> float:
        return self.at_s

    def wall_ms(self) -> int:
        return int(self.at_s * 1000)


@pytest.fixture
def statuses() -> Statuses:
    return Statuses()


@pytest.fixture
def hours() -> Hours:
    return Hours()


def of(statuses: Statuses, hours: Hours, *, tracked: bool = True) -> ActiveTopics:
    return ActiveTopics(TASK, statuses=statuses, clock=hours, tracked=tracked)


def test_a_topic_is_told_when_it_is_used_and_again_when_it_was_forgotten(
    statuses: Statuses, hours: Hours
) -> None:
    """ConnectorTopicsIntegrationTest.testGetActiveTopics, its end."""
    topics = of(statuses, hours)
    for _ in range(3):
        topics.record_topic_use("t")
        hours.at_s += 0.1
    [told] = statuses.topics
    assert (told.topic, told.connector, told.task, told.discovered_ms) == ("t", "c", 1, 5000)
    statuses.topics.clear()
    topics.record_topic_use("t")
    assert statuses.topics == [], "looked for a moment ago"
    hours.at_s += active_topics.RECHECK_INTERVAL_S
    topics.record_topic_use("t")
    assert [each.topic for each in statuses.topics] == ["t"]


def test_what_another_task_said_is_not_said_again(statuses: Statuses, hours: Hours) -> None:
    of(statuses, hours).record_topic_use("t")
    of(statuses, hours).record_topic_use("t")
    assert len(statuses.topics) == 1


def test_where_nothing_is_tracked_nothing_is_said(statuses: Statuses, hours: Hours) -> None:
    of(statuses, hours, tracked=False).record_topic_use("t")
    assert statuses.topics == []
