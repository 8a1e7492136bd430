"""What runs while its worker's place in its group is in doubt, or its connector changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import eventually, watched
from tests.support.connect_workers import Group, Kind
from tests.support.watched import Make, Watched

pytestmark = pytest.mark.integration

OURS = Kind.OURS
TASKS = 4
SESSION_S, DELAY_S = 6.0, 1.0


@pytest.fixture(scope="module")
def group(east: SandboxCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    settings = {
        "session.timeout.ms": str(round(SESSION_S * 1000)),
        "scheduled.rebalance.max.delay.ms": str(round(DELAY_S * 1000)),
        "heartbeat.interval.ms": "500",
    }
    folder = tmp_path_factory.mktemp("workers")
    with Group(
        east.client_properties(), "worker-membership", folder=folder, settings=settings
    ) as made:
        made.start_all({"one": OURS, "two": OURS})
        yield made


@pytest.fixture
def make(
    east: SandboxCluster,
    topic: Callable[..., str],
    group: Group,
    tmp_path: Path,
) -> Iterator[Make]:
    with watched.connectors(east, topic, worker=group["one"], folder=tmp_path) as making:
        yield making


def tasks_at(group: Group, one: Watched, *, asked: str) -> dict[int, str]:
    """By task, the address of the worker that says that it runs it."""
    told = group[asked].get(f"/connectors/{one.name}/status")
    return {each["id"]: each["worker_id"] for each in told["tasks"] if each["state"] == "RUNNING"}


def shared(group: Group, one: Watched, tasks: int) -> Callable[[], bool]:
    def is_so() -> bool:
        found = tasks_at(group, one, asked="two")
        return len(found) == tasks and len(set(found.values())) == 2

    return is_so


def test_a_worker_that_stood_still_ends_its_tasks_before_it_joins_again(
    group: Group, make: Make
) -> None:
    """Its work was given to others, and goes on there."""
    one = make(connector_class=watched.PIPELINE, tasks_max=str(TASKS))
    group["two"].configure(one.name, one.config())
    eventually.eventually(shared(group, one, TASKS), watched.WAIT_S, interval_s=0.3)
    frozen, other = group["one"], group["two"]
    its = {task for task, at in tasks_at(group, one, asked="two").items() if at == frozen.address}
    before = len(frozen.log_path.read_text())
    frozen.sigstop()
    try:
        eventually.eventually(
            lambda: set(tasks_at(group, one, asked="two").values()) == {other.address},
            watched.WAIT_S,
            interval_s=0.3,
        )
    finally:
        frozen.sigcont()
    eventually.eventually(shared(group, one, TASKS), watched.WAIT_S, interval_s=0.3)
    lines = frozen.log_path.read_text()[before:].splitlines()
    joined = next(n for n, line in enumerate(lines) if "joining the group" in line)
    ended = {
        int(found[1]): n
        for n, line in enumerate(lines)
        if (found := re.search(rf"task {one.name}-(\d+) is UNASSIGNED", line)) and n < joined
    }
    assert set(ended) >= its, (its, lines[: joined + 1])
    counts = one.counts()
    for task in range(TASKS):
        assert counts[f"task.start:{task}"] == counts[f"task.stop:{task}"] + 1


def test_a_task_more_leaves_the_others_alone(group: Group, make: Make) -> None:
    one = make(tasks_max="2", same="yes")
    group["one"].configure(one.name, one.config(topic=None))
    watched.reaches(group["one"], one.name, "RUNNING", 2)
    group["two"].configure(one.name, one.config(topic=None, tasks_max="3"))
    watched.reaches(group["one"], one.name, "RUNNING", 3)
    starts = [one.count("task.start", str(task)) for task in range(3)]
    moved = [one.count("task.stop", str(task)) for task in range(3)]
    assert starts[2] == 1
    assert sum(moved) <= 1, f"one may have moved to even the load, none was restarted: {moved}"


def test_a_pipeline_takes_another_configuration_up_where_it_runs(group: Group, make: Make) -> None:
    one = make(connector_class=watched.PIPELINE, tasks_max="2")
    group["one"].configure(one.name, one.config())
    watched.reaches(group["one"], one.name, "RUNNING", 2)
    group["two"].configure(one.name, one.config(take="yes"))
    eventually.eventually(lambda: one.count("task.reconfigure") >= 2, watched.WAIT_S)
    watched.reaches(group["one"], one.name, "RUNNING", 2)
    assert one.count("task.start") == 2, one.counts()
    group["two"].configure(one.name, one.config())
    eventually.eventually(lambda: one.count("task.start") == 4, watched.WAIT_S)
    watched.reaches(group["one"], one.name, "RUNNING", 2)
    assert one.count("task.stop") == 2
