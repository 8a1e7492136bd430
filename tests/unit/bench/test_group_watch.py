from __future__ import annotations

import json

import pytest

from tests.bench import group_watch
from tests.bench.task_runs import Item, Said

RUNNING = json.dumps(
    {"state": "RUNNING", "trace": None, "worker_id": "w:1", "generation": 3}
).encode()


@pytest.mark.parametrize(
    ("key", "item"),
    [
        (b"status-connector-a-1", Item("a-1")),
        (b"status-task-a-1-12", Item("a-1", 12)),
    ],
)
def test_connectors_and_tasks_are_told_apart(key, item):
    assert group_watch.said(key, RUNNING, at_ms=1234) == Said(
        item=item, state="RUNNING", worker="w:1", generation=3, at_ms=1234
    )


def test_a_deleted_status_is_a_state_as_well():
    told = group_watch.said(b"status-task-a-0", None, at_ms=1)
    assert (told.item, told.state, told.worker) == (Item("a", 0), None, "")


def test_topics_in_use_are_nobodys_state():
    assert group_watch.said(b"status-topic-t:connector-a", b"{}", at_ms=1) is None
