"""Three workers and more: who runs what as they come and go.

Java: RebalanceSourceConnectorsIntegrationTest, ConnectWorkerIntegrationTest's testAddAndRemove…,
SessionedProtocolIntegrationTest.
"""

from __future__ import annotations

import collections
import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import eventually, kafka, watched
from tests.support.connect_workers import Group, Kind, Worker
from tests.support.watched import Make, Watched

pytestmark = pytest.mark.integration

OURS = Kind.OURS
CONNECTORS, TASKS = 3, 4
NAMES = ("one", "two", "three")


@contextlib.contextmanager
def three_workers(
    east: SandboxCluster, name: str, folder: Path, *, delay_s: int
) -> Iterator[Group]:
    """They wait so long for a worker that left."""
    with Group(
        east.client_properties(),
        name,
        folder=folder,
        settings={
            "scheduled.rebalance.max.delay.ms": str(delay_s * 1000),
            "heartbeat.interval.ms": "500",
        },
    ) as made:
        made.start_all(dict.fromkeys(NAMES, OURS))
        yield made


@pytest.fixture(scope="module")
def group(east: SandboxCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """Three, for most tests of this module."""
    folder = tmp_path_factory.mktemp("workers")
    with three_workers(east, "worker-rebalances", folder, delay_s=10) as made:
        yield made


@pytest.fixture
def patient(east: SandboxCluster, tmp_path: Path) -> Iterator[Group]:
    """Three that wait until workers that left are started again, on a busy machine too."""
    with three_workers(east, "worker-bounces", tmp_path, delay_s=30) as made:
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


def running(group: Group, made: list[Watched]) -> None:
    for one in made:
        watched.reaches(group["one"], one.name, "RUNNING", TASKS)


def start(group: Group, make: Make) -> list[Watched]:
    made = [make(tasks_max=str(TASKS)) for _ in range(CONNECTORS)]
    for one in made:
        group["one"].configure(one.name, one.config())
    running(group, made)
    return made


def shares(group: Group, made: list[Watched]) -> dict[str, list[int]]:
    """Of each worker that runs anything, how many connectors and tasks, by their statuses."""
    found: collections.Counter[tuple[str, int]] = collections.Counter()
    for one in made:
        told = group["one"].get(f"/connectors/{one.name}/status")
        found[told["connector"]["worker_id"], 0] += 1
        for each in told["tasks"]:
            found[each["worker_id"], 1] += 1
    return {worker: [found[worker, 0], found[worker, 1]] for worker, _ in found}


def balanced(group: Group, made: list[Watched], workers: int) -> Callable[[], bool]:
    def is_so() -> bool:
        found = shares(group, made)
        loads = list(zip(*found.values(), strict=True))
        return len(found) == workers and all(max(each) - min(each) < 2 for each in loads)

    return is_so


def runs_once(made: list[Watched]) -> bool:
    """By what they noted: every task was started once more than it was stopped."""
    for one in made:
        counts = one.counts()
        for number in range(TASKS):
            if counts[f"task.start:{number}"] != counts[f"task.stop:{number}"] + 1:
                return False
    return True


def last_led(worker: Worker) -> int:
    """The last generation in which it says that it leads; 0 if it never did."""
    found = re.findall(r"joined generation (\d+) as leader", worker.log_text())
    return int(found[-1]) if found else 0


def test_work_follows_workers_that_come_and_go(group: Group, make: Make) -> None:
    """testAddingWorker, testRemovingWorker, testAddAndRemoveWorker."""
    made = start(group, make)
    eventually.eventually(balanced(group, made, 3), watched.WAIT_S, interval_s=0.3)
    before = sum((each.counts() for each in made), collections.Counter())
    group.start("four", OURS)
    eventually.eventually(balanced(group, made, 4), watched.WAIT_S, interval_s=0.3)
    running(group, made)
    moved = sum((each.counts() for each in made), collections.Counter()) - before
    stops = sum(count for place, count in moved.items() if place.startswith("task.stop"))
    assert stops == CONNECTORS * TASKS // 4, "only what goes to the new worker stops"
    group["four"].stop()
    eventually.eventually(balanced(group, made, 3), watched.WAIT_S, interval_s=0.3)
    running(group, made)
    eventually.eventually(lambda: runs_once(made), watched.WAIT_S)


@pytest.mark.full
def test_workers_that_bounce_get_their_work_back(
    east: SandboxCluster,
    topic: Callable[..., str],
    patient: Group,
    tmp_path: Path,
) -> None:
    """testMultipleWorkersRejoining; what stayed where it was is not stopped.

    The leader stays: another one would not know what was lost.
    """
    with watched.connectors(east, topic, worker=patient["one"], folder=tmp_path) as make:
        made = start(patient, make)
        eventually.eventually(balanced(patient, made, 3), watched.WAIT_S, interval_s=0.3)
        stay = max(NAMES, key=lambda name: last_led(patient[name]))
        bounce = [name for name in NAMES if name != stay]
        kept = patient[stay].address
        stays = [
            (one, each["id"], one.count("task.stop", str(each["id"])))
            for one in made
            for each in patient[stay].get(f"/connectors/{one.name}/status")["tasks"]
            if each["worker_id"] == kept
        ]
        assert stays
        for name in bounce:
            patient[name].sigterm()
        for name in bounce:
            patient[name].ended()
        for name in bounce:
            patient[name].launch()
        for name in bounce:
            patient[name].await_ready()
        eventually.eventually(balanced(patient, made, 3), watched.WAIT_S, interval_s=0.3)
        running(patient, made)
        eventually.eventually(lambda: runs_once(made), watched.WAIT_S)
        for one, number, before in stays:
            assert one.count("task.stop", str(number)) == before, f"{one.name}-{number} was stopped"


def test_a_connector_that_goes_leaves_the_rest_even(group: Group, make: Make) -> None:
    """testDeleteConnector, testStartTwoConnectors."""
    made = start(group, make)
    gone = made.pop()
    watched.delete(group["two"], gone)
    eventually.eventually(balanced(group, made, 3), watched.WAIT_S, interval_s=0.3)
    running(group, made)


def test_another_topic_restarts_all_of_a_connector_once(
    east: SandboxCluster, group: Group, make: Make
) -> None:
    """testReconfigConnector."""
    one, other = make(tasks_max=str(TASKS), every_ms="5", messages="25"), make()
    properties = east.client_properties()
    group["one"].configure(one.name, one.config())
    watched.reaches(group["one"], one.name, "RUNNING", TASKS)
    eventually.eventually(
        lambda: len(kafka.read_topic(properties, one.name)[0]) >= 100, watched.WAIT_S
    )
    group["two"].configure(one.name, one.config(topic=other.name, messages="50"))
    eventually.eventually(
        lambda: len(kafka.read_topic(properties, other.name)[0]) >= 100, watched.WAIT_S
    )
    watched.reaches(group["one"], one.name, "RUNNING", TASKS)
    counts = one.counts()
    assert counts["connector.start"] == 2
    assert [counts[f"task.start:{number}"] for number in range(TASKS)] == [2] * TASKS


def test_nobody_but_workers_may_write_task_configs(group: Group, make: Make) -> None:
    """SessionedProtocolIntegrationTest, before and after the connector is there."""
    one = make()
    wrong = {
        "X-Connect-Authorization": "S2Fma2Flc3F1ZQ==",
        "X-Connect-Request-Signature-Algorithm": "HmacSHA256",
    }

    def refused(headers: dict[str, str]) -> list[int]:
        path = f"/connectors/{one.name}/tasks"
        return [group[name].ask("POST", path, [], headers=headers).status_code for name in NAMES]

    for _ in range(2):
        assert refused({}) == [400] * 3
        assert refused(wrong) == [403] * 3
        group["one"].configure(one.name, one.config())
        watched.reaches(group["one"], one.name, "RUNNING", 1)
