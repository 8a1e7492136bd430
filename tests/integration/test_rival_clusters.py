"""Two Connect clusters on the same internal topics: the later one does not start.

Nor is anybody kept from starting who only looks like one.
"""

from __future__ import annotations

import pytest

from tests.support import eventually, idle_source
from tests.support.connect_workers import Kind, Worker

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

JAVA, OURS = Kind.JAVA, Kind.OURS
WAIT_S = 60.0
NOT_STARTED = 3
TASKS = 2


def works(worker: Worker) -> None:
    """It has a connector, and says so."""
    worker.configure("c", idle_source.config(tasks=TASKS))
    runs_all(worker)


def runs_all(worker: Worker) -> None:
    eventually.eventually(
        lambda: worker.runs("c", tasks=TASKS), WAIT_S, worker.log_text, interval_s=0.2
    )


def is_refused(worker: Worker, because_of: Worker) -> None:
    assert worker.launch().ended() == NOT_STARTED, worker.log_text()
    log = worker.log_text()
    assert "another Connect cluster uses the same internal topics" in log
    assert f"worker {because_of.address} runs c" in log
    assert "config.storage.topic" in log
    assert "Traceback" not in log


@pytest.mark.parametrize(
    "kind", [OURS, pytest.param(JAVA, marks=pytest.mark.full)], ids=lambda each: each.value
)
def test_another_group_on_the_same_topics(connect_group, kind):
    group = connect_group()
    first = group.start("first", kind)
    works(first)
    rival = group.add("rival", OURS, {"group.id": f"{group.group_id}-other"})
    is_refused(rival, first)
    assert first.runs("c", tasks=TASKS)
    first.stop()
    rival.start()
    runs_all(rival)


@pytest.mark.full
def test_the_same_group_and_the_same_worker_again(connect_group):
    group = connect_group(
        settings={"scheduled.rebalance.max.delay.ms": "0", "session.timeout.ms": "6000"}
    )
    first = group.start("first", OURS)
    works(first)
    group.start("second", OURS)
    first.sigkill()
    first.start()
    group["second"].stop()
    runs_all(first)
    first.sigkill()
    first.start()
    runs_all(first)


@pytest.mark.full
def test_another_cluster_with_the_same_connectors(connect_group):
    """As made by the same script, at the same time: with offsets that are the same, too."""
    one, other = (connect_group().start("one", OURS) for _ in range(2))
    works(one)
    works(other)
    other.sigkill()
    other.start()
    runs_all(other)
    assert one.runs("c", tasks=TASKS)
