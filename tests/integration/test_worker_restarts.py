"""What `POST …/restart` starts and stops, counted. Java: ConnectorRestartApiIntegrationTest."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator

import httpx
import pytest

from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import eventually, watched
from tests.support.connect_workers import Group, Kind, Worker
from tests.support.watched import Make, Watched

pytestmark = pytest.mark.integration

TASKS = 3
FLAGS = list(itertools.product([False, True], repeat=2))
"""(onlyFailed, includeTasks)"""


@pytest.fixture(scope="module")
def group(east: SandboxCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    folder = tmp_path_factory.mktemp("workers")
    with Group(
        east.client_properties(),
        "worker-restarts",
        folder=folder,
        settings={"heartbeat.interval.ms": "500"},
    ) as made:
        made.start_all({"one": Kind.OURS, "two": Kind.OURS})
        yield made


def ask(worker: Worker, name: str, *, only_failed: bool, with_tasks: bool) -> httpx.Response:
    flags = {"onlyFailed": str(only_failed).lower(), "includeTasks": str(with_tasks).lower()}
    return worker.ask("POST", f"/connectors/{name}/restart", params=flags)


def restart(worker: Worker, name: str, *, only_failed: bool, with_tasks: bool) -> list[str]:
    """States of the connector and its tasks as the answer has them; none where it has no body."""
    answer = ask(worker, name, only_failed=only_failed, with_tasks=with_tasks)
    if not only_failed and not with_tasks:
        assert (answer.status_code, answer.content) == (204, b""), answer.text
        return []
    assert answer.status_code == 202, answer.text
    told = answer.json()
    return [told["connector"]["state"], *(each["state"] for each in told["tasks"])]


def has_started(one: Watched, before: collections.Counter[str], expected: dict[str, int]) -> None:
    """It has been started since as expected, and nothing more is while nothing happens."""
    seen: list[dict[str, int]] = []

    def quiet() -> bool:
        since = one.counts() - before
        seen.append({each: count for each, count in since.items() if _is_start(each)})
        come = all(seen[-1].get(each, 0) >= count for each, count in expected.items())
        return come and len(seen) > 4 and all(each == seen[-1] for each in seen[-5:])

    eventually.eventually(quiet, watched.WAIT_S, lambda: f"starts: {seen[-1]}", interval_s=0.3)
    assert seen[-1] == expected


def _is_start(place: str) -> bool:
    return place.split(":")[0] in ("connector.start", "task.start")


def starts(*, connector: int = 0, tasks: dict[int, int] | None = None) -> dict[str, int]:
    found = {f"task.start:{number}": count for number, count in (tasks or {}).items()}
    return found | ({"connector.start": connector} if connector else {})


ALL = dict.fromkeys(range(TASKS), 1)


@pytest.mark.parametrize(("only_failed", "with_tasks"), FLAGS)
def test_what_is_unknown_is_not_restarted(
    worker: Worker, *, only_failed: bool, with_tasks: bool
) -> None:
    """testRestartUnknownConnector*."""
    answer = ask(worker, "Unknown", only_failed=only_failed, with_tasks=with_tasks)
    assert (answer.status_code, answer.json()["message"]) == (404, "Unknown connector: Unknown")


@pytest.mark.parametrize(
    ("only_failed", "with_tasks", "expected"),
    [
        (False, False, starts(connector=1)),
        (False, True, starts(connector=1, tasks=ALL)),
        (True, False, {}),
        (True, True, {}),
    ],
)
def test_what_runs_is_restarted_unless_only_what_failed_shall_be(
    group: Group,
    make: Make,
    *,
    only_failed: bool,
    with_tasks: bool,
    expected: dict[str, int],
) -> None:
    """testRunningConnectorAndTasksRestart*, testMultiWorkerRestart*: at either worker."""
    one = make(tasks_max=str(TASKS))
    group["one"].configure(one.name, one.config())
    watched.reaches(group["one"], one.name, "RUNNING", TASKS)
    for name in ("one", "two"):
        before = one.counts()
        told = restart(group[name], one.name, only_failed=only_failed, with_tasks=with_tasks)
        restarting = 0 if only_failed or not with_tasks else 1 + TASKS
        assert told.count("RESTARTING") == restarting
        has_started(one, before, expected)
        watched.reaches(group["one"], one.name, "RUNNING", TASKS)


@pytest.mark.parametrize(
    ("only_failed", "with_tasks"), [(False, False), (False, True), (True, True)]
)
def test_a_connector_that_failed_is_tried_again(
    worker: Worker, make: Make, *, only_failed: bool, with_tasks: bool
) -> None:
    """testFailedConnectorRestart*."""
    one = make(tasks_max=str(TASKS), fail="connector.start")
    worker.configure(one.name, one.config())
    watched.reaches(worker, one.name, "FAILED")
    before = one.counts()
    answer = ask(worker, one.name, only_failed=only_failed, with_tasks=with_tasks)
    assert answer.status_code in (202, 500), answer.text
    has_started(one, before, starts(connector=1))
    watched.reaches(worker, one.name, "FAILED")


@pytest.mark.parametrize(
    ("failing", "only_failed", "with_tasks", "expected"),
    [
        ("task.start", False, False, starts(connector=1)),
        ("task.start", True, True, starts(tasks=ALL)),
        ("task.start", True, False, {}),
        ("task.start", False, True, starts(connector=1, tasks=ALL)),
        ("task.start:1", True, True, starts(tasks={1: 1})),
    ],
)
def test_tasks_that_failed_are_tried_again(
    worker: Worker,
    make: Make,
    *,
    failing: str,
    only_failed: bool,
    with_tasks: bool,
    expected: dict[str, int],
) -> None:
    """testFailedTasksRestart*, testOneFailedTasksRestartOnlyOneTasks."""
    one = make(tasks_max=str(TASKS), fail=failing)
    states = ["FAILED"] * TASKS
    if failing.endswith(":1"):
        states = ["RUNNING", "FAILED", "RUNNING"]
    worker.configure(one.name, one.config())

    def stands() -> bool:
        return watched.status(worker, one.name) == ("RUNNING", states)

    eventually.eventually(stands, watched.WAIT_S, interval_s=0.2)
    before = one.counts()
    told = restart(worker, one.name, only_failed=only_failed, with_tasks=with_tasks)
    assert ("RESTARTING" in told) == (with_tasks)
    has_started(one, before, expected)
    eventually.eventually(stands, watched.WAIT_S, interval_s=0.2)
